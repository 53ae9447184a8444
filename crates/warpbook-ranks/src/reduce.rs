//! Converts values to and from the type in which they are sent.

use crate::Wire;
use half::{bf16, f16};

/// Returns the values as bytes of the given wire type.
pub(crate) fn packed(values: &[f32], wire: Wire) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * wire.bytes());
    match wire {
        Wire::F32 => values.iter().for_each(|v| bytes.extend(v.to_le_bytes())),
        Wire::F16 => values.iter().for_each(|v| bytes.extend(f16::from_f32(*v).to_le_bytes())),
        Wire::Bf16 => values.iter().for_each(|v| bytes.extend(bf16::from_f32(*v).to_le_bytes())),
    }
    bytes
}

/// Calls `take` with the index and the value of each number in a message.
fn each(bytes: &[u8], wire: Wire, mut take: impl FnMut(usize, f32)) {
    let pair = |b: &[u8]| [b[0], b[1]];
    match wire {
        Wire::F32 => {
            bytes.chunks_exact(4).enumerate().for_each(|(i, b)| take(i, f32::from_le_bytes([b[0], b[1], b[2], b[3]])))
        }
        Wire::F16 => bytes.chunks_exact(2).enumerate().for_each(|(i, b)| take(i, f16::from_le_bytes(pair(b)).to_f32())),
        Wire::Bf16 => {
            bytes.chunks_exact(2).enumerate().for_each(|(i, b)| take(i, bf16::from_le_bytes(pair(b)).to_f32()))
        }
    }
}

/// Overwrites `to` with the values of a message of the same length.
pub(crate) fn put(bytes: &[u8], wire: Wire, to: &mut [f32]) {
    each(bytes, wire, |i, v| to[i] = v);
}

/// Adds a message's values, which are the sums over earlier ranks, to this rank's values.
pub(crate) fn add(bytes: &[u8], wire: Wire, to: &mut [f32]) {
    each(bytes, wire, |i, v| to[i] += v);
}

/// Rounds the values to the given wire type.
pub(crate) fn round(values: &mut [f32], wire: Wire) {
    match wire {
        Wire::F32 => {}
        Wire::F16 => values.iter_mut().for_each(|v| *v = f16::from_f32(*v).to_f32()),
        Wire::Bf16 => values.iter_mut().for_each(|v| *v = bf16::from_f32(*v).to_f32()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_travels_rounded_to_its_type() {
        let values = [1.0, -0.3333, 65_504.0, 3e38];
        for wire in [Wire::F32, Wire::F16, Wire::Bf16] {
            let bytes = packed(&values, wire);
            assert_eq!(bytes.len(), 4 * wire.bytes());
            let (mut got, mut rounded) = ([0.0; 4], values);
            put(&bytes, wire, &mut got);
            round(&mut rounded, wire);
            assert_eq!(got, rounded);
            add(&bytes, wire, &mut got);
            assert_eq!(got[0], 2.0);
        }
        let (mut half, mut brain) = (values, values);
        round(&mut half, Wire::F16);
        round(&mut brain, Wire::Bf16);
        assert!(half[3].is_infinite() && brain[3].is_finite() && half[2] == 65_504.0 && brain[2] != 65_504.0);
    }
}
