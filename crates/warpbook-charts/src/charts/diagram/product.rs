//! A diagram of the three matrices of a product.

use super::matrix::Matrix;
use super::style::NAME;
use crate::draw::{At, Canvas, Drawn, Font, MARGIN, WIDTH};

/// A product c = a b. The rows of `a` are aligned with the rows of `c`, and the columns of `b` with the columns of `c`.
#[derive(Debug, Clone, PartialEq)]
pub struct Product {
    pub(super) a: Matrix,
    pub(super) b: Matrix,
    pub(super) c: Matrix,
}

impl Product {
    /// Makes a product. The rows of `a` get the height of the rows of `c`, and the columns of `b` get the width of the
    /// columns of `c`.
    #[must_use]
    pub fn new(mut a: Matrix, mut b: Matrix, c: Matrix) -> Self {
        (a.cell.1, b.cell.0) = (c.cell.1, c.cell.0);
        Self { a, b, c }
    }

    pub(super) fn a_width(&self) -> f64 {
        self.a.names_width() + self.a.width().max(NAME.width(&self.a.name).min(150.0))
    }

    pub(super) fn above(&self) -> f64 {
        self.b.above() + self.b.height() + GAP_OF_PRODUCT
    }

    pub(super) fn draw(&self, canvas: &Canvas<'_>, (left, top): (f64, f64)) -> Drawn {
        let middle = left + self.a_width() + GAP_OF_PRODUCT;
        let (b_top, c_top) = (top + self.b.above(), top + self.above());
        let room = WIDTH - MARGIN - middle;
        canvas.elided(&self.b.name, room, (middle, top + 8.0), At::Left, NAME)?;
        self.b.draw_elements(canvas, (middle, b_top))?;
        let a_left = middle - GAP_OF_PRODUCT - self.a.width();
        let name_right = middle - GAP_OF_PRODUCT;
        canvas.elided(&self.a.name, self.a_width(), (name_right, c_top - 10.0), At::Right, NAME)?;
        self.a.draw_elements(canvas, (a_left, c_top))?;
        self.c.draw_elements(canvas, (middle, c_top))?;
        let below = c_top + self.c.height() + 11.0;
        canvas.elided(&self.c.name, room, (middle, below), At::Left, NAME)?;
        canvas.elided(&self.c.caption, room, (middle, below + 15.0), At::Left, Font::SMALL)
    }
}

pub(super) const GAP_OF_PRODUCT: f64 = 7.0;
