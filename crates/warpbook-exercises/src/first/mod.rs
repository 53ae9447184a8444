//! Exercises of lesson 00, the first kernels.
