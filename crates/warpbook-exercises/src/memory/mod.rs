//! Exercises of lesson 01: how the threads of a warp read memory.
