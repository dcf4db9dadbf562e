//! Who holds an end of the target's PTYs.

use std::collections::BTreeMap;

use super::processes::Processes;
use crate::stats::{Holder, PtyId, Side};

/// All that were seen to.
#[derive(Debug, Default)]
pub(crate) struct Ends(BTreeMap<(PtyId, Side, u32), Holder>);

impl Ends {
    /// Who holds what now. A PTY that nobody holds any more keeps the ends that it had last.
    pub(crate) fn hold(&mut self, holders: Vec<Holder>, processes: &mut Processes) {
        self.0
            .retain(|(pty, _, _), _| holders.iter().all(|h| h.pty != *pty));
        for holder in holders {
            processes.add_holder(&holder);
            self.0.insert((holder.pty, holder.side, holder.pid), holder);
        }
    }

    /// In the order of PTYs, sides and pids.
    pub(crate) fn all(&self) -> Vec<Holder> {
        self.0.values().cloned().collect()
    }
}
