//! Builder methods that most experiments share: the selection of rungs, and the seed.

/// Implements the selection of rungs for an experiment with a field `selection`.
macro_rules! selects {
    ($experiment:ty) => {
        impl warpbook_lab::settings::Selects for $experiment {
            fn selection(&self) -> &Selection {
                &self.selection
            }

            fn selection_mut(&mut self) -> &mut Selection {
                &mut self.selection
            }
        }

        impl $experiment {
            /// Selects rungs by id.
            #[must_use]
            pub fn rungs<S: Into<String>>(mut self, ids: impl IntoIterator<Item = S>) -> Self {
                self.selection.rungs = Some(ids.into_iter().map(Into::into).collect());
                self
            }
        }
    };
}

/// Implements the seed for an experiment with a field `seed`. The second argument is the documentation of its setter.
macro_rules! seeded {
    ($experiment:ty, $doc:literal) => {
        impl $experiment {
            #[doc = $doc]
            #[must_use]
            pub fn seed(mut self, seed: u64) -> Self {
                self.seed = seed;
                self
            }

            fn seed_setting(help: &'static str) -> Setting<Self> {
                let set = |e: Self, text: &str| Ok(e.seed(warpbook_lab::settings::parse_count(text)?));
                Setting { name: "seed", value: Some("N"), help, set, get: |e| Some(e.seed.to_string()) }
            }
        }
    };
}

pub(crate) use {seeded, selects};
