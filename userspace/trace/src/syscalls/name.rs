//! Names in rows: of files and of threads. Equal texts share one allocation, so that a row costs a
//! reference count and comparing costs a pointer.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A name that came from a [`Names`]. Compared by address: names of two [`Names`] are never equal.
#[derive(Debug, Clone)]
pub struct Name(Arc<str>);

impl Name {
    /// The text, shared.
    pub fn text(&self) -> &Arc<str> {
        &self.0
    }

    fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }
}

impl std::ops::Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.address() == other.address()
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.address());
    }
}

/// Gives equal texts one [`Name`]. Names that nobody holds any more are forgotten from time to time.
#[derive(Debug)]
pub struct Names {
    known: HashSet<Arc<str>>,
    forget_at: usize,
}

/// Below so many names none is forgotten.
const FEW: usize = 1 << 14;

impl Default for Names {
    fn default() -> Names {
        Names {
            known: HashSet::new(),
            forget_at: FEW,
        }
    }
}

impl Names {
    /// The name of this text.
    pub fn get(&mut self, text: &str) -> Name {
        if let Some(known) = self.known.get(text) {
            return Name(known.clone());
        }
        if self.known.len() >= self.forget_at {
            self.known.retain(|n| Arc::strong_count(n) > 1);
            self.forget_at = FEW.max(2 * self.known.len());
        }
        let name: Arc<str> = text.into();
        self.known.insert(name.clone());
        Name(name)
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_held_stay_the_same_and_the_rest_is_forgotten() {
        let mut names = Names::default();
        let held = names.get("held");
        for i in 0..10 * FEW {
            names.get(&format!("passing {i}"));
        }
        assert!(names.len() <= FEW, "{}", names.len());
        assert_eq!(names.get("held"), held);
        assert_ne!(names.get("other"), held);
    }
}
