//! The largest by name, the rest in one sum.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::Figures;

/// Figures by key. When there are twice as many keys as are wanted, those with the least time are
/// summed up into [`Top::rest`]; one that comes again begins anew.
#[derive(Debug)]
pub struct Top<K> {
    by_key: FxHashMap<K, Figures>,
    wanted: usize,
    /// Sum of those that were let go.
    pub rest: Figures,
    /// How often a key was let go.
    pub let_go: u64,
}

impl<K: Eq + Hash + Clone> Top<K> {
    /// For so many keys, and for a while twice as many.
    pub fn new(wanted: usize) -> Top<K> {
        Top {
            by_key: FxHashMap::default(),
            wanted,
            rest: Figures::default(),
            let_go: 0,
        }
    }

    /// The figures of a key, to add to.
    pub fn of(&mut self, key: &K) -> &mut Figures {
        if self.by_key.len() >= 2 * self.wanted && !self.by_key.contains_key(key) {
            self.shrink();
        }
        self.by_key.entry(key.clone()).or_default()
    }

    /// Those of a key that is kept.
    pub fn get(&self, key: &K) -> Option<&Figures> {
        self.by_key.get(key)
    }

    /// All that are kept.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Figures)> {
        self.by_key.iter()
    }

    /// Those with the most time.
    pub fn largest(&self, most: usize) -> Vec<(&K, &Figures)> {
        let mut all: Vec<_> = self.by_key.iter().collect();
        all.sort_by_key(|(_, f)| std::cmp::Reverse((f.time_ns(), f.count())));
        all.truncate(most);
        all
    }

    fn shrink(&mut self) {
        let mut times: Vec<u64> = self.by_key.values().map(Figures::time_ns).collect();
        let middle = times.len() / 2;
        let limit = *times.select_nth_unstable(middle).1;
        // Of many with the same time some stay: what counts is that half of them goes.
        let mut may_go = middle;
        let (rest, let_go) = (&mut self.rest, &mut self.let_go);
        self.by_key.retain(|_, figures| {
            if figures.time_ns() > limit || may_go == 0 {
                return true;
            }
            may_go -= 1;
            *let_go += 1;
            rest.merge(figures);
            false
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_is_dropped_and_the_largest_stays(
            keys in proptest::collection::vec((0u32..60, 1u64..1000), 0..600),
        ) {
            let mut top = Top::new(8);
            let (mut count, mut time) = (0, 0);
            for (key, ns) in &keys {
                top.of(key).duration.record(*ns);
                top.of(&1000).duration.record(1_000_000);
                count += 2;
                time += ns + 1_000_000;
            }
            let mut all = top.rest.clone();
            top.iter().for_each(|(_, f)| all.merge(f));
            prop_assert_eq!((all.count(), all.time_ns()), (count, time));
            prop_assert!(top.iter().count() <= 16);
            if !keys.is_empty() {
                prop_assert_eq!(top.largest(1)[0].0, &1000);
                prop_assert_eq!(top.largest(1)[0].1.count(), keys.len() as u64, "never let go");
            }
        }
    }
}
