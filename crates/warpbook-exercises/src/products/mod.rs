//! Exercises of lesson 20: the matrix product.
