//! The display of tensors, models and an optimiser's state.

use crate::display::{Show, html};
use warpbook_charts::Table;
use warpbook_nn::model::{Model, OptimizerState, Tensors};
use warpbook_nn::tensor::Tensor;

/// Displays a tensor as its type, shape, device and first values.
impl Show for Tensor {
    fn html(&self) -> String {
        format!("<p><code>{}</code></p>", html::escape(&self.to_string()))
    }

    fn text(&self) -> String {
        self.to_string()
    }
}

fn table(tensors: &Tensors) -> Table {
    let row = |(name, tensor): (&str, &Tensor)| {
        // The text has the form "fp32 [10] on the CPU: 0.1, 0.2, ...".
        let shown = tensor.to_string();
        let values = shown.split_once(": ").map_or("", |(_, values)| values);
        let shape = tensor.shape().iter().map(ToString::to_string).collect::<Vec<_>>().join(" x ");
        [name.to_owned(), shape, tensor.dtype().label().to_owned(), tensor.place(), values.to_owned()]
    };
    html::table(["name", "shape", "type", "place", "first values"], tensors.iter().map(row).collect())
}

fn with_table(title: &str, tensors: &Tensors) -> String {
    let table = if tensors.is_empty() { String::new() } else { html::scroll(&table(tensors)) };
    format!("<p>{}</p>{table}", html::escape(title))
}

fn text_with_table(title: String, tensors: &Tensors) -> String {
    if tensors.is_empty() { title } else { format!("{title}\n{}", Show::text(&table(tensors))) }
}

/// Displays tensors as a table with each one's shape, type, device and first values.
impl Show for Tensors {
    fn html(&self) -> String {
        with_table(&self.to_string(), self)
    }

    fn text(&self) -> String {
        text_with_table(self.to_string(), self)
    }
}

/// Displays a model as the network's size and device, with the weights.
impl Show for Model {
    fn html(&self) -> String {
        with_table(&self.to_string(), self.tensors())
    }

    fn text(&self) -> String {
        text_with_table(self.to_string(), self.tensors())
    }
}

/// Displays an optimiser's state as steps, loss scale and device, with the arrays.
impl Show for OptimizerState {
    fn html(&self) -> String {
        with_table(&self.to_string(), &self.tensors)
    }

    fn text(&self) -> String {
        text_with_table(self.to_string(), &self.tensors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpbook_data::synthetic_digits;
    use warpbook_nn::network::{Network, flatten, linear};
    use warpbook_nn::train::{Recipe, Trainer};

    #[test]
    fn a_tensor_shows_where_it_is() {
        let tensor = Tensor::new([2, 1], vec![0.5, -1.0]).unwrap();
        assert_eq!(Show::text(&tensor), "fp32 [2, 1] on the CPU: 0.5, -1");
        assert_eq!(tensor.html(), "<p><code>fp32 [2, 1] on the CPU: 0.5, -1</code></p>");
    }

    #[test]
    fn a_model_and_its_optimizer_show_where_they_are() {
        let digits = synthetic_digits(16, 4, 1);
        let network = Network::new([1, 28, 28], [flatten(), linear(10)]).unwrap();
        let recipe = Recipe { network, batch: 8, ..Recipe::mnist() };
        let trainer = Trainer::new(recipe, &digits.train, None).unwrap();
        let text = Show::text(&trainer.model().unwrap());
        assert!(text.starts_with("A network of 2 layers: 2 tensors, 7850 numbers in fp32 on the CPU\n"), "{text}");
        let row = text.lines().find(|l| l.starts_with("fc1.weight")).unwrap();
        assert!(row.contains("10 x 784") && row.contains("fp32") && row.contains("the CPU"), "{row}");
        let state = trainer.optimizer_state().unwrap();
        let html = state.html();
        assert!(html.contains("SGD after 0 steps: 2 tensors") && html.contains("optimizer.0.fc1.bias"), "{html}");
        assert!(Show::text(&state).contains("0, 0, 0, 0, 0, 0, ..."), "the momentum begins at 0");
    }
}
