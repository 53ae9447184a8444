// Idea: wgmma reads tf32 tiles only along k; a transposing copy provides them.
// Formula: to[r][c] = from[c][r]; elements of 2 or 4 bytes, row-major with leading dimensions.
// Since the last rung: not a rung; it runs before a product whose matrices are stored in the other order.
// Needs: any sizes.
// Expect: coalesced reads and writes through a tile in shared memory, at DRAM bandwidth.

#if ELEMENT_BYTES == 2
using Element = unsigned short;
#else
using Element = unsigned;
#endif

// Transposes one tile per block: BM rows of `to` with BN elements each, from BN rows of `from`.
extern "C" __global__ void __launch_bounds__(THREADS)
repack_transposed(const Element* __restrict__ from /* [columns][ld_from] */, Element* __restrict__ to /* [rows][ld_to] */, unsigned rows,
                  unsigned columns, unsigned ld_from, unsigned ld_to) {
    static_assert(BM == 64 && BN == 64 && THREADS == 256, "64 threads along a row, four rows at a time");
    // Rows are padded by one element, so that a column is spread over different banks.
    __shared__ Element tile[BN][BM + 1];
    const unsigned tiles = (columns + BN - 1) / BN;
    const unsigned row = blockIdx.x / tiles * BM, column = blockIdx.x % tiles * BN;
    const unsigned along = threadIdx.x % 64, first = threadIdx.x / 64;
    if (row + along < rows) {
#pragma unroll
        for (unsigned i = first; i < BN; i += 4) {
            if (column + i < columns) tile[i][along] = __ldg(from + (size_t)(column + i) * ld_from + row + along);
        }
    }
    __syncthreads();
    if (column + along < columns) {
#pragma unroll
        for (unsigned i = first; i < BM; i += 4) {
            if (row + i < rows) to[(size_t)(row + i) * ld_to + column + along] = tile[along][i];
        }
    }
}
