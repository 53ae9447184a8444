use warpbook_kernels::matmul::Epilogue;

/// Computes gelu(v) = v Φ(v), where Φ is the distribution function of the standard normal distribution: the exact form, which is the default of
/// `torch.nn.GELU`. Its relative error is at most 3e-8 (f32 rounds to 6e-8); for negative infinity the result is NaN, since it is 0 times infinity.
#[must_use]
pub fn gelu(v: f64) -> f64 {
    v * normal_distribution(v)
}

/// Computes the derivative of [`gelu`], Φ(v) + v φ(v), where φ is the density of the standard normal distribution. Returns NaN if v is infinite.
#[must_use]
pub fn gelu_derivative(v: f64) -> f64 {
    let density = (-0.5 * v * v).exp() / std::f64::consts::TAU.sqrt();
    normal_distribution(v) + v * density
}

/// Computes Φ(x), with a relative error of at most 3e-8.
///
/// Φ(-x) exp(x^2 / 2) is smooth in t = 1 / (1 + 0.35 x), so it is computed as t times a polynomial in t that interpolates at the Chebyshev
/// nodes on (0, 1).
fn normal_distribution(x: f64) -> f64 {
    const POLYNOMIAL: [f64; 11] = [
        0.139_629_803_09,
        0.139_628_591_72,
        0.122_574_975_47,
        0.087_494_427_684,
        0.050_362_759_072,
        -0.035_935_889_037,
        0.087_204_471_079,
        -0.251_409_490_82,
        0.258_120_347_31,
        -0.119_179_162_27,
        0.021_509_169_726,
    ];
    let z = x.abs();
    let t = 1.0 / (1.0 + 0.35 * z);
    let tail = t * POLYNOMIAL.iter().rev().fold(0.0, |sum, c| sum * t + c) * (-0.5 * z * z).exp();
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// Applies the epilogue to an element: `v` is alpha op(A) op(B) + beta C.
pub(crate) fn apply(epilogue: Epilogue, v: f32, bias: f32, mask: f32) -> f32 {
    match epilogue {
        Epilogue::None => v,
        Epilogue::Bias => v + bias,
        // `f32::max` would turn a NaN into 0.
        Epilogue::BiasRelu => {
            if v + bias < 0.0 {
                0.0
            } else {
                v + bias
            }
        }
        Epilogue::ReluMask => {
            if mask <= 0.0 {
                0.0
            } else {
                v
            }
        }
        Epilogue::Gelu => gelu(v.into()) as f32,
        Epilogue::BiasGelu => gelu((v + bias).into()) as f32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes Φ by the series of Marsaglia, "Evaluating the normal distribution", J. Stat. Softw. 11(4), 2004: 1/2 + the density times x + x^3/3 + x^5/15 +
    /// ...
    fn by_series(x: f64) -> f64 {
        let (mut sum, mut term, mut i) = (x, x, 1.0);
        while sum + term != sum {
            i += 2.0;
            term *= x * x / i;
            sum += term;
        }
        0.5 + sum * (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt()
    }

    #[test]
    fn the_normal_distribution_is_its_series() {
        for i in -4000..=4000 {
            let x = f64::from(i) * 1e-3;
            let (got, want) = (normal_distribution(x), by_series(x));
            assert!((got - want).abs() <= 3e-8 * want + 1e-15, "{x}: {got} {want}");
        }
        // The expected values in the tails are from published tables.
        for (x, want) in [(-6.0, 9.865_876_450e-10), (-10.0, 7.619_853_024e-24), (-30.0, 4.906_713_927e-198)] {
            assert!((normal_distribution(x) / want - 1.0).abs() <= 3e-8, "{x}");
        }
        assert_eq!((normal_distribution(40.0), normal_distribution(-40.0)), (1.0, 0.0));
    }

    #[test]
    fn gelu_s_derivative_is_the_slope() {
        const STEP: f64 = 1e-4;
        for i in -600..=600 {
            let x = f64::from(i) * 0.01;
            let slope = ((x + STEP) * by_series(x + STEP) - (x - STEP) * by_series(x - STEP)) / (2.0 * STEP);
            assert!((gelu_derivative(x) - slope).abs() <= 1e-7, "{x}: {} {slope}", gelu_derivative(x));
        }
    }

    #[test]
    fn epilogues_are_what_they_say() {
        let check = |epilogue, v, want: f32| {
            let got = apply(epilogue, v, 0.5, -1.0);
            assert!((got - want).abs() <= 1e-6, "{epilogue:?} of {v}: {got} {want}");
        };
        check(Epilogue::None, -2.0, -2.0);
        check(Epilogue::Bias, -2.0, -1.5);
        check(Epilogue::BiasRelu, -2.0, 0.0);
        check(Epilogue::BiasRelu, 2.0, 2.5);
        check(Epilogue::ReluMask, 2.0, 0.0);
        assert_eq!(apply(Epilogue::ReluMask, 2.0, 0.0, 1e-30), 2.0);
        // As in PyTorch, a ReLU passes NaN in both directions.
        assert_eq!(apply(Epilogue::ReluMask, 2.0, 0.0, f32::NAN), 2.0);
        // The expected values were computed by PyTorch.
        check(Epilogue::Gelu, 1.0, 0.841_344_7);
        check(Epilogue::Gelu, -1.0, -0.158_655_25);
        check(Epilogue::Gelu, -3.0, -0.004_049_694);
        check(Epilogue::BiasGelu, 0.5, 0.841_344_7);
        for epilogue in Epilogue::ALL {
            let mask_keeps = apply(epilogue, f32::NAN, 0.0, 1.0);
            assert!(mask_keeps.is_nan(), "{epilogue:?} of NaN is {mask_keeps}");
        }
    }
}
