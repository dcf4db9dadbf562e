//! The system calls of a run with a live view: the recorder's pipeline, beside what attach has anyway.

use std::cell::RefCell;
use std::rc::Rc;

use crate::syscalls::view::{Filter, Look, Seen, Watch};
use crate::syscalls::{Call, Consumer, Pipeline};

/// Calls, their figures, and who looks at them.
pub(super) struct Calls {
    pipeline: Pipeline,
    watch: Rc<RefCell<Watch>>,
    recorded: Recorded,
    unix_offset_ns: i128,
}

/// Where calls are recorded to, while they are.
type Recorded = Rc<RefCell<Option<Box<dyn Consumer>>>>;

/// Gives calls to who looks on, and to the recording.
struct Both {
    watch: Rc<RefCell<Watch>>,
    recorded: Recorded,
}

impl Consumer for Both {
    fn calls(&mut self, calls: &[Call]) {
        self.watch.borrow_mut().calls(calls);
        if let Some(recorded) = &mut *self.recorded.borrow_mut() {
            recorded.calls(calls);
        }
    }
}

impl Calls {
    pub(super) fn new(unix_offset_ns: i128) -> Calls {
        let watch = Rc::new(RefCell::new(Watch::default()));
        let recorded = Recorded::default();
        let mut pipeline = Pipeline::default();
        pipeline.add(Box::new(Both {
            watch: watch.clone(),
            recorded: recorded.clone(),
        }));
        Calls {
            pipeline,
            watch,
            recorded,
            unix_offset_ns,
        }
    }

    /// Takes what the kernel has told.
    pub(super) fn take(&mut self, record: &[u8]) {
        self.pipeline.take(record);
    }

    /// Hands over all that was taken.
    pub(super) fn flush(&mut self) {
        self.pipeline.flush();
    }

    /// Records that were not understood, and calls whose file has no name.
    pub(super) fn losses(&self) -> [u64; 2] {
        [self.pipeline.undecodable(), self.pipeline.unnamed()]
    }

    /// From now on calls are recorded there; `None`: nowhere.
    pub(super) fn record(&mut self, to: Option<Box<dyn Consumer>>) {
        *self.recorded.borrow_mut() = to;
    }

    pub(super) fn look(&mut self, look: Look) {
        self.watch.borrow_mut().look(look);
    }

    pub(super) fn filters(&mut self, filters: &[Filter]) {
        self.watch
            .borrow_mut()
            .filters(filters, self.pipeline.stats());
    }

    /// Counts from here.
    pub(super) fn reset(&mut self) {
        self.pipeline.reset();
        self.watch.borrow_mut().reset();
    }

    /// What is looked at, when it is time.
    pub(super) fn seen(&mut self) -> Option<Seen> {
        let stats = self.pipeline.stats();
        self.watch.borrow_mut().seen(stats, self.unix_offset_ns)
    }

    /// What was given last did not arrive.
    pub(super) fn not_taken(&mut self) {
        self.watch.borrow_mut().not_taken();
    }
}
