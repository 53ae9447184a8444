//! Other good answers than the solutions: no cause accuses them.

use crate::files::kernels;
use crate::verdicts::{SEED, best, exercise, judged};

/// Right answers, on target: exercise and body of the kernel.
const OTHERS: [(&str, &str); 9] = [
    (
        "E11",
        "int plan = (blockIdx.x * blockDim.x + threadIdx.x) / n, i = blockIdx.x * blockDim.x + threadIdx.x - plan * n;
         if (plan < 4) {
             float v = deposit[i], factor = 1 + rate[i];
             for (int left = years[plan]; left > 0; --left) v *= factor;
             out[plan * n + i] = v;
         }",
    ),
    (
        "E12",
        "int i = blockIdx.x * blockDim.x + threadIdx.x;
         float v = 0;
         if (i < n) v = x[i];
         for (int offset = 1; offset <= 16; offset += offset) v = v + __shfl_xor_sync(~0u, v, offset);
         if (i < n) y[i] = v;",
    ),
    (
        "E14",
        "__shared__ float tile[262];
         int first = blockIdx.x * 256 - 3;
         for (int place = threadIdx.x; place < 262; place += 256) {
             int at = first + place;
             tile[place] = at >= 0 && at < n ? x[at] : 0;
         }
         __syncthreads();
         float sum = 0;
         for (int j = 6; j >= 0; --j) sum += tile[threadIdx.x + j];
         if (first + 3 + threadIdx.x < n) y[first + 3 + threadIdx.x] = sum * (1.0f / 7);",
    ),
    (
        "E15",
        "__shared__ float tile[32][32];
         int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 32, col = blockIdx.x * 32;
         if (row + y < rows && col + x < cols) tile[y][x ^ y] = in[(row + y) * cols + col + x];
         __syncthreads();
         if (col + y < cols && row + x < rows) out[(col + y) * rows + row + x] = tile[x][y ^ x];",
    ),
    (
        "E16",
        "__shared__ int sums[8];
         int t = threadIdx.x, i = blockIdx.x * 256 + t, lane = t % 32;
         int v = i < n ? x[i] : 0;
         for (int step = 1; step < 32; step *= 2) {
             int left = __shfl_up_sync(0xffffffff, v, step);
             if (lane >= step) v += left;
         }
         if (lane == 31) sums[t / 32] = v;
         __syncthreads();
         for (int w = 0; w < t / 32; ++w) v += sums[w];
         if (i < n) y[i] = v;",
    ),
    (
        "E16",
        "__shared__ int sums[256];
         int t = threadIdx.x, i = blockIdx.x * 256 + t, v = i < n ? x[i] : 0;
         sums[t] = v;
         for (int step = 1; step < 256; step *= 2) {
             __syncthreads();
             int left = t < step ? 0 : sums[t - step];
             if (step < 128) __syncthreads();
             v += left;
             if (step < 128) sums[t] = v;
         }
         if (i < n) y[i] = v;",
    ),
    (
        "E17",
        "int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
         if (row >= m || col >= n) return;
         float sum = 0;
         for (int i = k - 1; i >= 0; --i) sum = fmaf(b[col + i * n], a[i + row * k], sum);
         c[row * n + col] = sum;",
    ),
    (
        "E18",
        "__shared__ float left[32][33], right[32][32];
         int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 32, col = blockIdx.x * 32 + x;
         float sum[4] = {};
         for (int at = 0; at < k; at += 32, __syncthreads()) {
             for (int r = y; r < 32; r += 8) {
                 left[r][x] = row + r < m && at + x < k ? a[(row + r) * k + at + x] : 0;
                 right[r][x] = at + r < k && col < n ? b[(at + r) * n + col] : 0;
             }
             __syncthreads();
             for (int i = 31; i >= 0; --i)
                 for (int s = 0; s < 4; ++s) sum[s] += left[y * 4 + s][i] * right[i][x];
         }
         for (int s = 0; s < 4; ++s)
             if (row + y * 4 + s < m && col < n) c[(row + y * 4 + s) * n + col] = sum[s];",
    ),
    (
        "E21",
        "__shared__ float tops[8], sums[8];
         int warp = threadIdx.x / 32;
         long first = (long)blockIdx.x * cols;
         float top = -3.4e38f, sum = 0;
         for (int i = threadIdx.x; i < cols; i += blockDim.x) {
             float v = x[first + i];
             if (v > top) sum *= expf(top - v), top = v;
             sum += expf(v - top);
         }
         for (int offset = 1; offset < 32; offset *= 2) {
             float other = __shfl_xor_sync(0xffffffff, top, offset), more = __shfl_xor_sync(0xffffffff, sum, offset);
             float larger = fmaxf(top, other);
             sum = sum * expf(top - larger) + more * expf(other - larger);
             top = larger;
         }
         if (threadIdx.x % 32 == 0) tops[warp] = top, sums[warp] = sum;
         __syncthreads();
         float all = -3.4e38f, total = 0;
         for (int w = 7; w >= 0; --w) all = fmaxf(all, tops[w]);
         for (int w = 0; w < 8; ++w) total += sums[w] * expf(tops[w] - all);
         for (int i = threadIdx.x; i < cols; i += blockDim.x) y[first + i] = expf(x[first + i] - all) / total;",
    ),
];

#[test]
fn other_good_answers_than_the_solutions_are_right_and_on_target() {
    let all = kernels();
    let mut wrong = Vec::new();
    for (id, body) in OTHERS {
        let (definition, task) = all.iter().find(|(definition, _)| definition.id == id).unwrap();
        let exercise = exercise(definition);
        for seed in [SEED, SEED + 1] {
            let tried = judged(&exercise, &format!("{}\n{{\n{body}\n}}\n", task.signature), seed);
            if (tried.verdict, tried.cause_id()) != (best(task), None) {
                wrong.push(format!("{} (seed {seed}, cause {:?})", tried.line(), tried.cause));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
