//! A name in a row: a command's, a path, a syscall's. Cheap to clone, because each row carries several.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A shared string. One that is known at compile time costs nothing to clone; the rest a reference count.
#[derive(Clone)]
pub struct Name(Text);

#[derive(Clone)]
enum Text {
    Static(&'static str),
    Shared(Arc<str>),
}

impl Name {
    /// A name that is known at compile time: no allocation, no reference count.
    pub const fn fixed(name: &'static str) -> Name {
        Name(Text::Static(name))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Static(s) => s,
            Text::Shared(s) => s,
        }
    }

    /// Where its text lies: equal addresses and lengths are equal names, as long as both live.
    pub(crate) fn address(&self) -> (usize, usize) {
        let s = self.as_str();
        (s.as_ptr() as usize, s.len())
    }
}

impl Default for Name {
    fn default() -> Self {
        Name::fixed("")
    }
}

impl From<&str> for Name {
    fn from(s: &str) -> Self {
        if s.is_empty() {
            return Name::default();
        }
        Name(Text::Shared(s.into()))
    }
}

impl From<String> for Name {
    fn from(s: String) -> Self {
        s.as_str().into()
    }
}

impl From<Arc<str>> for Name {
    fn from(s: Arc<str>) -> Self {
        Name(Text::Shared(s))
    }
}

impl std::ops::Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

/// Gives equal texts one [`Name`], so that a text that comes again allocates nothing. Bounded.
#[derive(Debug)]
pub struct Names {
    known: HashSet<Name>,
    most: usize,
}

impl Names {
    /// At most `most` names are remembered; when there are more, all are forgotten and learnt anew.
    pub fn new(most: usize) -> Names {
        Names {
            known: HashSet::new(),
            most,
        }
    }

    /// The name of this text.
    pub fn get(&mut self, text: &str) -> Name {
        if let Some(name) = self.known.get(text) {
            return name.clone();
        }
        if self.known.len() >= self.most {
            self.known.clear();
        }
        let name = Name::from(text);
        self.known.insert(name.clone());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_equal_text_gets_the_same_name_and_the_table_stays_bounded() {
        let mut names = Names::new(2);
        let a = names.get("a");
        assert_eq!(a.address(), names.get("a").address());
        names.get("b");
        names.get("c");
        assert!(names.known.len() <= 2, "{names:?}");
        assert_eq!(names.get("a"), a, "another copy, the same text");
    }
}
