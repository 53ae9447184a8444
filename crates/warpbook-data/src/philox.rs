//! Philox4x32-10 random numbers, with the same bits on the CPU and on a GPU.
//!
//! A number depends only on its seed, stream id and index, so arrays can be drawn in parts, in any order, and on any device. This module draws them
//! on the CPU; `warpbook_gemm::philox` queues kernels that draw the same bits on a GPU.
//!
//! Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Gaussian numbers are
//! drawn by the Box-Muller transform (1958) with single IEEE operations; permutations by a Feistel network (Luby and
//! Rackoff, 1988) that is iterated until the result falls into the range (Black and Rogaway, 2002).

use crate::parallel::chunks;

/// Returns the four random words at `counter` of sequence `stream` of `seed`.
#[must_use]
pub fn philox4x32(seed: u64, counter: u64, stream: u32) -> [u32; 4] {
    philox4x32_4(seed, [counter as u32, (counter >> 32) as u32, stream, 0])
}

/// Returns the four random words at a counter of four words, lowest word first. Unlike [`philox4x32`], the caller also chooses the last word.
#[must_use]
pub fn philox4x32_4(seed: u64, counter: [u32; 4]) -> [u32; 4] {
    blocks(seed, counter.map(|word| [word])).map(|[word]| word)
}

/// Returns the words at N counters at once: `[word][counter]`, so that the loops over counters are vectorised.
#[inline(always)]
pub fn blocks<const N: usize>(seed: u64, mut c: [[u32; N]; 4]) -> [[u32; N]; 4] {
    let (mut k0, mut k1) = (seed as u32, (seed >> 32) as u32);
    let wide = |a: u32, b: u32| {
        let product = u64::from(a) * u64::from(b);
        ((product >> 32) as u32, product as u32)
    };
    for _ in 0..10 {
        let [c0, c1, c2, c3] = &mut c;
        for (((c0, c1), c2), c3) in c0.iter_mut().zip(c1).zip(c2).zip(c3) {
            let ((hi0, lo0), (hi1, lo1)) = (wide(0xD251_1F53, *c0), wide(0xCD9E_8D57, *c2));
            [*c0, *c1, *c2, *c3] = [hi1 ^ *c1 ^ k0, lo1, hi0 ^ *c3 ^ k1, lo0];
        }
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
    }
    c
}

/// Maps a word to an odd multiple of 2^-24 in (0, 1), which is exact and never 0.
fn unit_interval(word: u32) -> f32 {
    (2 * (word >> 9) + 1) as f32 * 5.960_464_5e-8
}

/// Computes ln(u) for a normal u > 0, to about 2 ulp. The library's function is not used, because its last bit differs between CPUs and GPUs.
fn natural_log(u: f32) -> f32 {
    let bits = u.to_bits().cast_signed();
    // Subtracting the bits of sqrt(1/2) splits u = m 2^e with m in [sqrt(1/2), sqrt(2)).
    let e = (bits - 0x3f35_04f3) >> 23;
    let m = f32::from_bits((bits - (e << 23)).cast_unsigned());
    let f = m - 1.0;
    let s = f / (f + 2.0);
    let z = s * s;
    let mut p = 0.111_111_11_f32;
    for c in [0.142_857_15, 0.2, 0.333_333_34, 1.0] {
        p = p * z + c;
    }
    e as f32 * std::f32::consts::LN_2 + 2.0 * s * p
}

/// Computes cos(2 pi v) for v in [0, 1), to about 2^-23.
fn cos_2pi(v: f32) -> f32 {
    let quarters = v * 4.0;
    let q = quarters as i32;
    let t = (quarters - q as f32) * std::f32::consts::FRAC_PI_2;
    let z = t * t;
    let mut c = 2.087_675_7e-9_f32;
    for k in [-2.755_732e-7, 2.480_158_8e-5, -0.001_388_888_9, 0.041_666_668, -0.5, 1.0] {
        c = c * z + k;
    }
    let mut s = -2.505_210_8e-8_f32;
    for k in [2.755_731_9e-6, -0.000_198_412_7, 0.008_333_334, -0.166_666_67, 1.0] {
        s = s * z + k;
    }
    s *= t;
    let value = if q & 1 == 1 { s } else { c };
    if q == 1 || q == 2 { -value } else { value }
}

/// Returns number `index` of a sequence of uniform numbers in (0, 1); `kernels/nn/philox.cuh` draws the same bits.
#[must_use]
pub fn uniform(seed: u64, index: u64, stream: u32) -> f32 {
    unit_interval(philox4x32(seed, index, stream)[0])
}

/// Returns number `index` of a sequence of standard Gaussian numbers; `kernels/nn/philox.cuh` draws the same bits.
#[must_use]
pub fn gaussian(seed: u64, index: u64, stream: u32) -> f32 {
    let r = philox4x32(seed, index, stream);
    let radius = (-2.0 * natural_log(unit_interval(r[0]))).sqrt();
    radius * cos_2pi(unit_interval(r[1]))
}

/// Returns the image of `i` under a permutation of `0..n`; `n` is at least 1 and at most 2^62.
///
/// # Panics
/// If `i` is not below `n`.
#[must_use]
pub fn permute(seed: u64, i: u64, n: u64) -> u64 {
    const STREAM: u32 = 0x7065_726d;
    const ROUNDS: u32 = 12;
    assert!(i < n && n <= 1 << 62, "index {i} of {n}");
    let width = (u64::BITS - (n - 1).leading_zeros()).max(2);
    let low = width / 2;
    let (mask_a, mask_b) = (((1u64 << low) - 1) as u32, ((1u64 << (width - low)) - 1) as u32);
    let mut i = i;
    loop {
        let (mut a, mut b) = (i as u32 & mask_a, (i >> low) as u32 & mask_b);
        for round in (0..ROUNDS).step_by(2) {
            a ^= philox4x32(seed, u64::from(b), STREAM + round)[0] & mask_a;
            b ^= philox4x32(seed, u64::from(a), STREAM + round + 1)[0] & mask_b;
        }
        i = (u64::from(b) << low) | u64::from(a);
        if i < n {
            return i;
        }
    }
}

/// Fills `out` with standard Gaussian numbers, starting at `first_index`, on all threads of the rayon pool.
pub fn fill_gaussians(out: &mut [f32], seed: u64, stream_id: u32, first_index: u64) {
    fill(out, first_index, |i| gaussian(seed, i, stream_id));
}

/// Fills `out` with uniform numbers in (0, 1), starting at `first_index`, on all threads of the rayon pool.
pub fn fill_uniforms(out: &mut [f32], seed: u64, stream_id: u32, first_index: u64) {
    fill(out, first_index, |i| uniform(seed, i, stream_id));
}

/// Fills `out` with elements of a permutation of `0..of`, starting at `first_index`, on all threads of the rayon pool.
///
/// # Panics
/// If the permutation ends before `out` is full.
pub fn fill_permutation(out: &mut [u64], seed: u64, first_index: u64, of: u64) {
    fill(out, first_index, |i| permute(seed, i, of));
}

fn fill<T: Send>(out: &mut [T], first_index: u64, value: impl Fn(u64) -> T + Sync) {
    const CHUNK: usize = 4096;
    chunks(out, CHUNK, &|chunk, out| {
        let first = first_index + (chunk * CHUNK) as u64;
        out.iter_mut().zip(first..).for_each(|(out, i)| *out = value(i));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_authors_numbers() {
        // These are the known answers that the authors publish with Random123 (kat_vectors, philox4x32 10).
        let check = |seed: u64, counter: [u32; 4], expect: [u32; 4]| assert_eq!(philox4x32_4(seed, counter), expect);
        check(0, [0; 4], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        check(u64::MAX, [u32::MAX; 4], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        check(
            0x299f_31d0_a409_3822,
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        );
    }

    #[test]
    fn log_and_cosine_are_near_the_library_s() {
        for k in 0..100_000u32 {
            let u = unit_interval(k.wrapping_mul(42_949));
            let (log, cos) = (f64::from(u).ln(), (f64::from(u) * std::f64::consts::TAU).cos());
            assert!((f64::from(natural_log(u)) - log).abs() <= 3e-7 * log.abs().max(1e-3), "ln {u}");
            assert!((f64::from(cos_2pi(u)) - cos).abs() <= 3e-7, "cos {u}");
        }
    }

    #[test]
    fn gaussian_numbers_have_their_moments() {
        let n = 200_000u64;
        let z: Vec<f64> = (0..n).map(|i| f64::from(gaussian(7, i, 0))).collect();
        let mean = z.iter().sum::<f64>() / n as f64;
        let power = |k| z.iter().map(|v| (v - mean).powi(k)).sum::<f64>() / n as f64;
        // The tolerance is five standard errors of each moment of a standard Gaussian.
        let within = |got: f64, want: f64, variance: f64| (got - want).abs() < 5.0 * (variance / n as f64).sqrt();
        assert!(within(mean, 0.0, 1.0), "mean {mean}");
        assert!(within(power(2), 1.0, 2.0), "variance {}", power(2));
        assert!(within(power(3), 0.0, 15.0), "third moment {}", power(3));
        assert!(within(power(4), 3.0, 96.0), "fourth moment {}", power(4));
        assert!(z.iter().all(|v| v.is_finite()));
    }

    #[test]
    fn uniform_numbers_have_their_moments() {
        let n = 200_000u64;
        let u: Vec<f64> = (0..n).map(|i| f64::from(uniform(3, i, 5))).collect();
        assert!(u.iter().all(|v| *v > 0.0 && *v < 1.0));
        let moment = |k| u.iter().map(|v| (v - 0.5).powi(k)).sum::<f64>() / n as f64;
        // The tolerance is five standard errors of the mean and of the variance.
        assert!(moment(1).abs() < 5.0 * (1.0 / 12.0 / n as f64).sqrt(), "mean {}", moment(1) + 0.5);
        assert!((moment(2) - 1.0 / 12.0).abs() < 5.0 * (1.0 / 180.0 / n as f64).sqrt(), "variance {}", moment(2));
    }

    #[test]
    fn arrays_can_be_filled_in_parts() {
        let mut all = vec![0.0; 10_000];
        fill_gaussians(&mut all, 9, 2, 0);
        let mut part = vec![0.0; 5000];
        fill_gaussians(&mut part, 9, 2, 3000);
        assert_eq!(part, all[3000..8000]);
        assert_eq!(all[7], gaussian(9, 7, 2));
        fill_uniforms(&mut part, 9, 2, 1 << 40);
        assert_eq!(part[4999], uniform(9, (1 << 40) + 4999, 2));
        let mut order = vec![0; 6];
        fill_permutation(&mut order, 1, 4, 10);
        assert!(order.iter().zip(4..).all(|(p, i)| *p == permute(1, i, 10)));
    }

    #[test]
    fn a_permutation_meets_every_index_once() {
        for n in [1u64, 2, 3, 5, 64, 1000, 4097, 100_003] {
            let mut seen = vec![false; n as usize];
            for i in 0..n {
                let p = permute(3, i, n) as usize;
                assert!(!std::mem::replace(&mut seen[p], true), "{p} twice of {n}");
            }
        }
    }

    #[test]
    fn a_permutation_mixes_and_follows_its_seed() {
        let n = 100_000;
        let first: f64 = (0..n * 4 / 5).map(|i| permute(1, i, n) as f64).sum::<f64>() / (n as f64 * 0.8);
        // The standard error of the mean is about 46 for 80,000 numbers drawn from 0..100,000 without replacement.
        assert!((first - (n as f64 - 1.0) / 2.0).abs() < 230.0, "{first}");
        let same = (0..n).filter(|&i| permute(1, i, n) == permute(2, i, n)).count();
        assert!(same < 20, "{same} fixed between two seeds");
        let neighbours = (1..n).filter(|&i| permute(1, i, n).abs_diff(permute(1, i - 1, n)) == 1).count();
        assert!(neighbours < 20, "{neighbours} neighbours stayed together");
    }
}
