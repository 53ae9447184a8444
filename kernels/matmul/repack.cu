// Idea: TMA needs rows at multiples of 16 bytes; this kernel makes such copies of both operands in one launch.
// Formula: to[r][c] = from[r][c]; elements of 2 or 4 bytes, row-major with leading dimensions.
// Since the last rung: not a rung; it runs before a product whose matrices are not aligned.
// Needs: `to` 16-byte aligned with rows of a multiple of 16 bytes.
// Expect: one read and one write of the matrix at DRAM bandwidth; L2 keeps part of it for the product.
#include "launch.cuh"

#if ELEMENT_BYTES == 2
using Element = unsigned short;
#else
using Element = unsigned;
#endif
constexpr unsigned A_PIECE = 16 / ELEMENT_BYTES;  // Elements in 16 bytes.

// A matrix and its copy.
struct Copy {
    const Element* from;  // [rows][ld_from]
    Element* to;          // [rows][ld_to]
    unsigned rows, columns, ld_from, ld_to;
};

// Copies one matrix, or both operands in one launch (`second` has no rows if there is only one). Each block copies one tile of BM
// rows of BN elements, 16 bytes per thread.
extern "C" __global__ void __launch_bounds__(THREADS)
repack(const Copy first, const Copy second) {
    constexpr unsigned PIECES = BN / A_PIECE;
    static_assert(BM * PIECES == THREADS, "one piece per thread");
    wait_for_predecessor();
    // The product's blocks may start next to these blocks and do their setup in the meantime.
    let_successor_start();
    const unsigned of_first = (first.rows + BM - 1) / BM * ((first.columns + BN - 1) / BN);
    const bool is_first = blockIdx.x < of_first;
    const auto [from, to, rows, columns, ld_from, ld_to] = is_first ? first : second;
    const unsigned tile = is_first ? blockIdx.x : blockIdx.x - of_first, tiles = (columns + BN - 1) / BN;
    const unsigned row = tile / tiles * BM + threadIdx.x / PIECES;
    const unsigned column = tile % tiles * BN + threadIdx.x % PIECES * A_PIECE;
    if (row >= rows || column >= columns) return;
    const size_t at = (size_t)from + ((size_t)row * ld_from + column) * ELEMENT_BYTES;
    uint4 piece;
    unsigned* words = reinterpret_cast<unsigned*>(&piece);
    if (column + A_PIECE <= columns) {
        // Loads the aligned words around the 16 bytes and shifts them if those bytes start in the middle of a word.
        const unsigned* whole = reinterpret_cast<const unsigned*>(at & ~(size_t)3);
        const unsigned shift = at % 4 * 8;
        unsigned next = __ldg(whole);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const unsigned now = next;
            if (i < 3 || shift != 0) next = __ldg(whole + i + 1);
            words[i] = __funnelshift_r(now, next, shift);
        }
    } else {
        Element* elements = reinterpret_cast<Element*>(&piece);
#pragma unroll
        for (unsigned i = 0; i < A_PIECE; ++i) {
            elements[i] = column + i < columns ? from[(size_t)row * ld_from + column + i] : Element(0);
        }
    }
    *reinterpret_cast<uint4*>(to + (size_t)row * ld_to + column) = piece;
}
