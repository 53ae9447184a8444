// The position of an element in an array of images: [image][row][column][channel], or [image][channel][row][column] with CHANNELS_FIRST.
#pragma once

struct Place {
    unsigned image, channel, row, column;
};

// The position of element i in an array of images of h x w.
__device__ __forceinline__ Place place(unsigned i, unsigned channels, unsigned h, unsigned w) {
    Place p;
#if CHANNELS_FIRST
    p.column = i % w, i /= w;
    p.row = i % h, i /= h;
    p.channel = i % channels, p.image = i / channels;
#else
    p.channel = i % channels, i /= channels;
    p.column = i % w, i /= w;
    p.row = i % h, p.image = i / h;
#endif
    return p;
}

// The index of the element at a position in an array of images of h x w.
__device__ __forceinline__ unsigned element(Place p, unsigned channels, unsigned h, unsigned w) {
#if CHANNELS_FIRST
    return ((p.image * channels + p.channel) * h + p.row) * w + p.column;
#else
    return ((p.image * h + p.row) * w + p.column) * channels + p.channel;
#endif
}
