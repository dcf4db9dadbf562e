//! The flame graph: whose time it was, and what it went to, as blocks below their parents.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::super::app::App;
use super::super::table::cut;
use super::Page;
use crate::escape::{name, visible};
use crate::report::model::{Report, ThreadRow};
use crate::report::units::{bytes, count, duration, percent};
use crate::report::words;
use crate::syscalls::stats::{self, Level};

/// What the width of a block means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Metric {
    /// On a CPU or waiting for one.
    #[default]
    Busy,
    /// The same and asleep.
    Time,
    /// Switches away from the CPU.
    Switches,
    /// The time of all echoes, by link.
    Echoes,
    /// System calls, and what they come to.
    Calls(stats::Metric),
}

/// The levels of the tree of calls, in each order.
const ORDERS: [[Level; 3]; 6] = [
    [Level::Process, Level::Path, Level::Syscall],
    [Level::Process, Level::Syscall, Level::Path],
    [Level::Path, Level::Process, Level::Syscall],
    [Level::Path, Level::Syscall, Level::Process],
    [Level::Syscall, Level::Process, Level::Path],
    [Level::Syscall, Level::Path, Level::Process],
];

impl Metric {
    fn next(self) -> Metric {
        match self {
            Metric::Busy => Metric::Time,
            Metric::Time => Metric::Switches,
            Metric::Switches => Metric::Echoes,
            Metric::Echoes => Metric::Calls(stats::Metric::Count),
            Metric::Calls(stats::Metric::Count) => Metric::Calls(stats::Metric::Bytes),
            Metric::Calls(stats::Metric::Bytes) => Metric::Calls(stats::Metric::Time),
            Metric::Calls(stats::Metric::Time) => Metric::Calls(stats::Metric::Blocked),
            Metric::Calls(stats::Metric::Blocked) => Metric::Busy,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Metric::Busy => "time on a CPU or waiting for one",
            Metric::Time => "time, asleep included",
            Metric::Switches => "switches",
            Metric::Echoes => "time of echoes",
            Metric::Calls(stats::Metric::Count) => "calls",
            Metric::Calls(stats::Metric::Bytes) => "bytes of calls",
            Metric::Calls(stats::Metric::Time) => "time in calls",
            Metric::Calls(stats::Metric::Blocked) => "time asleep in calls",
        }
    }

    fn shown(self, value: u64) -> String {
        match self {
            Metric::Switches | Metric::Calls(stats::Metric::Count) => count(value),
            Metric::Calls(stats::Metric::Bytes) => bytes(value),
            _ => duration(value),
        }
    }
}

/// What is looked at. Blocks are known by the names on the way to them: the tree is made anew with
/// each report.
#[derive(Debug, Default)]
pub(in super::super) struct Flame {
    metric: Metric,
    /// Children by name instead of the largest first.
    by_name: bool,
    /// Which of [`ORDERS`] the levels of calls have.
    order: usize,
    /// Where the graph begins.
    root: Vec<String>,
    /// Roots before.
    zoomed: Vec<Vec<String>>,
    /// The selected block, from the root on.
    selected: Vec<String>,
}

/// Columns that a block needs to say something.
const NARROW: u128 = 3;

/// A block.
#[derive(Debug, Default)]
struct Node {
    name: String,
    value: u64,
    children: Vec<Node>,
}

impl Node {
    fn of_calls(name: &str, node: &stats::Node) -> Node {
        let below = node.below.iter();
        Node {
            name: visible(name).into_owned(),
            value: node.size,
            children: below.map(|(name, n)| Node::of_calls(name, n)).collect(),
        }
    }

    /// Adds to the block at the end of the path, and to all on the way.
    fn add(&mut self, path: &[String], value: u64) {
        self.value = self.value.saturating_add(value);
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let at = self.children.iter().position(|c| c.name == *first);
        let at = at.unwrap_or_else(|| {
            self.children.push(Node {
                name: first.clone(),
                ..Node::default()
            });
            self.children.len() - 1
        });
        if let Some(child) = self.children.get_mut(at) {
            child.add(rest, value);
        }
    }

    fn sort(&mut self, by_name: bool) {
        if by_name {
            self.children.sort_by(|a, b| a.name.cmp(&b.name));
        } else {
            self.children
                .sort_by(|a, b| b.value.cmp(&a.value).then_with(|| a.name.cmp(&b.name)));
        }
        self.children.iter_mut().for_each(|c| c.sort(by_name));
    }

    fn child(&self, name: &str) -> Option<&Node> {
        self.children.iter().find(|c| c.name == name)
    }

    /// The block at the end of the path, or as far as there is one.
    fn at(&self, path: &[String]) -> &Node {
        let mut node = self;
        for name in path {
            match node.child(name) {
                Some(child) => node = child,
                None => break,
            }
        }
        node
    }
}

/// The moves that keys ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Move {
    Left,
    Right,
    Up,
    Down,
}

impl Flame {
    pub(in super::super) fn turn_metric(&mut self) {
        self.metric = self.metric.next();
        self.root.clear();
        self.zoomed.clear();
        self.selected.clear();
    }

    pub(in super::super) fn turn_order(&mut self) {
        self.by_name = !self.by_name;
    }

    /// The levels of the tree of calls the other way round.
    pub(in super::super) fn turn_levels(&mut self) {
        self.order = (self.order + 1) % ORDERS.len();
        self.root.clear();
        self.zoomed.clear();
        self.selected.clear();
    }

    /// The tree of calls that is looked at, if one is.
    pub(in super::super) fn of_calls(&self) -> Option<(stats::Metric, [Level; 3])> {
        match self.metric {
            Metric::Calls(metric) => Some((metric, ORDERS[self.order])),
            _ => None,
        }
    }

    /// The levels in words.
    fn levels(&self) -> String {
        let name = |l: &Level| match l {
            Level::Process => "process",
            Level::Path => "path",
            Level::Syscall => "call",
        };
        ORDERS[self.order]
            .iter()
            .map(name)
            .collect::<Vec<_>>()
            .join(" / ")
    }

    /// All blocks as collapsed stacks, a line each: what flame graph tools read.
    pub(in super::super) fn folded(&self, report: &Report, calls: Option<&stats::Node>) -> String {
        fn lines(node: &Node, way: &str, out: &mut String) {
            let below: u64 = node.children.iter().map(|c| c.value).sum();
            let own = node.value.saturating_sub(below);
            if own > 0 && !way.is_empty() {
                out.push_str(&format!("{way} {own}\n"));
            }
            for child in &node.children {
                let name = child.name.replace(';', ",");
                let way = match way {
                    "" => name,
                    _ => format!("{way};{name}"),
                };
                lines(child, &way, out);
            }
        }
        let mut out = String::new();
        lines(&self.tree(report, calls), "", &mut out);
        out
    }

    /// The selected block becomes the whole.
    pub(in super::super) fn zoom(&mut self) {
        if !self.selected.is_empty() {
            self.zoomed.push(self.root.clone());
            self.root.append(&mut self.selected);
        }
    }

    /// The block before becomes the whole again; whether there was one.
    pub(in super::super) fn undo(&mut self) -> bool {
        let Some(root) = self.zoomed.pop() else {
            return false;
        };
        self.root = root;
        self.selected.clear();
        true
    }

    pub(in super::super) fn select(
        &mut self,
        to: Move,
        report: &Report,
        calls: Option<&stats::Node>,
    ) {
        let tree = self.tree(report, calls);
        let root = tree.at(&self.root);
        match to {
            Move::Down => {
                if let Some(child) = root.at(&self.selected).children.first() {
                    self.selected.push(child.name.clone());
                }
            }
            Move::Up => {
                self.selected.pop();
            }
            Move::Left | Move::Right => {
                let Some(last) = self.selected.pop() else {
                    return;
                };
                let siblings = &root.at(&self.selected).children;
                let at = siblings.iter().position(|c| c.name == last).unwrap_or(0);
                let at = match to {
                    Move::Left => at.saturating_sub(1),
                    _ => (at + 1).min(siblings.len().saturating_sub(1)),
                };
                self.selected
                    .extend(siblings.get(at).map(|c| c.name.clone()));
            }
        }
    }

    fn tree(&self, report: &Report, calls: Option<&stats::Node>) -> Node {
        let mut all = Node {
            name: "all".into(),
            ..Node::default()
        };
        if self.of_calls().is_some() {
            if let Some(calls) = calls {
                all = Node::of_calls("all", calls);
            }
        } else if self.metric == Metric::Echoes {
            echoes(&mut all, report);
        } else {
            for thread in &report.threads {
                self.thread(&mut all, thread, report);
            }
        }
        all.sort(self.by_name);
        all
    }

    fn thread(&self, all: &mut Node, t: &ThreadRow, report: &Report) {
        let process = report.target.processes.iter().find(|p| p.pid == t.pid);
        let process = process.map_or("ended", |p| p.name.as_str());
        let way = |more: &[&str]| {
            let mut path = vec![
                format!("{}({})", name(process), t.pid),
                format!("{}({})", name(&t.comm), t.tid),
            ];
            path.extend(more.iter().map(|m| (*m).to_owned()));
            path
        };
        if self.metric == Metric::Switches {
            all.add(&way(&["went to sleep"]), t.voluntary);
            all.add(&way(&["was preempted"]), t.involuntary);
            return;
        }
        all.add(&way(&["on a CPU"]), t.on_cpu_ns);
        if self.metric == Metric::Time {
            all.add(&way(&["asleep"]), t.blocked_ns);
        }
        let waited = t.account.map_or(t.wait.sum, |a| a.sum);
        let mut rest = waited;
        for c in &t.ran_instead {
            let ns = c.ns.min(rest);
            rest -= ns;
            all.add(&way(&["waits for a CPU", &words::culprit(c)]), ns);
        }
        all.add(&way(&["waits for a CPU"]), rest);
    }
}

fn echoes(all: &mut Node, report: &Report) {
    for l in report.echoes.iter().flat_map(|e| &e.links) {
        let parts = [
            ("on a CPU", &l.on_cpu),
            ("waits for a CPU", &l.run_queue),
            ("throttled", &l.throttled),
            ("asleep", &l.blocked),
            ("interrupted", &l.interrupt),
            ("not known", &l.unknown),
        ];
        for (what, dist) in parts {
            all.add(&[words::link(l.link).to_owned(), what.to_owned()], dist.sum);
        }
    }
}

pub(super) fn page(app: &App, report: &Report, width: usize) -> Page {
    let flame = &app.flame;
    let tree = flame.tree(report, app.seen.tree.as_ref());
    let root = tree.at(&flame.root);
    let selected = root.at(&flame.selected);
    let head = Line::from(
        format!(
            "{} {} of {} ({}%), by {}",
            selected.name,
            flame.metric.shown(selected.value),
            flame.metric.shown(tree.value),
            percent(selected.value, tree.value),
            flame.metric.title(),
        ) + &match flame.of_calls() {
            Some(_) => format!(": {}", flame.levels()),
            None => String::new(),
        },
    );
    let mut rows = Rows::default();
    if root.value > 0 {
        rows.block(root, 0, 0, width, Some(&flame.selected));
    }
    Page::of(
        vec![head],
        rows.0.into_iter().map(|r| r.line).collect(),
        false,
    )
}

/// One line of blocks under way.
#[derive(Debug, Default)]
struct Row {
    line: Line<'static>,
    used: usize,
}

#[derive(Debug, Default)]
struct Rows(Vec<Row>);

impl Rows {
    /// Draws a block and those below it; `way` leads on to the selected one, if it is at or below this.
    fn block(
        &mut self,
        node: &Node,
        depth: usize,
        from: usize,
        width: usize,
        way: Option<&[String]>,
    ) {
        if width == 0 {
            return;
        }
        if self.0.len() <= depth {
            self.0.resize_with(depth + 1, Row::default);
        }
        if let Some(row) = self.0.get_mut(depth) {
            row.line
                .push_span(Span::raw(" ".repeat(from.saturating_sub(row.used))));
            row.line
                .push_span(Span::styled(label(&node.name, width), style(node, way)));
            row.used = from + width;
        }
        let (mut x, mut before) = (from, 0u128);
        let whole = u128::from(node.value.max(1));
        // Too narrow for a letter each: many short-lived processes are one block together.
        let columns = |c: &&Node| u128::from(c.value) * width as u128 / whole;
        let narrow: Vec<&Node> = node
            .children
            .iter()
            .filter(|c| columns(c) < NARROW)
            .collect();
        let together = (narrow.len() > 1).then(|| Node {
            name: format!("({} more)", narrow.len()),
            value: narrow.iter().fold(0, |sum, c| sum + c.value),
            children: Vec::new(),
        });
        let wide = node.children.iter();
        let wide = wide.filter(|c| together.is_none() || columns(c) >= NARROW);
        for child in wide.chain(&together) {
            before += u128::from(child.value);
            let until = from + usize::try_from(before * width as u128 / whole).unwrap_or(width);
            let way = way
                .and_then(<[String]>::split_first)
                .and_then(|(first, rest)| (*first == child.name).then_some(rest));
            let until = until.min(from + width);
            self.block(child, depth + 1, x, until - x, way);
            x = until;
        }
    }
}

/// The name cut or filled up to the block's width, a gap to the next one included.
fn label(name: &str, width: usize) -> String {
    let text = cut(name, width.saturating_sub(1));
    let pad = width.saturating_sub(text.width());
    text + &" ".repeat(pad)
}

fn style(node: &Node, way: Option<&[String]>) -> Style {
    const COLORS: [Color; 5] = [
        Color::Yellow,
        Color::LightRed,
        Color::LightYellow,
        Color::Red,
        Color::Magenta,
    ];
    let hash = node.name.bytes().fold(0usize, |h, b| {
        h.wrapping_mul(31).wrapping_add(usize::from(b))
    });
    let background = match node.name.as_str() {
        "on a CPU" => Color::Green,
        "asleep" => Color::Blue,
        _ => COLORS[hash % COLORS.len()],
    };
    let style = Style::new().fg(Color::Black).bg(background);
    if way.is_some_and(<[String]>::is_empty) {
        return style
            .bg(Color::White)
            .add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
    }
    style
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{sample, sample_echoes};

    #[test]
    fn a_block_is_the_sum_of_those_below_it() {
        fn check(node: &Node) {
            if !node.children.is_empty() {
                let sum: u64 = node.children.iter().map(|c| c.value).sum();
                assert!(sum <= node.value, "{}", node.name);
            }
            node.children.iter().for_each(check);
        }
        let report = sample_echoes::rich();
        let mut flame = Flame::default();
        let mut leaves = stats::Leaves::default();
        let mut names = crate::syscalls::Names::default();
        for file in ["/tmp/a", "/tmp/b"] {
            let file = names.get(file);
            leaves.add(&stats::tests::call(1, Some(file), 0, 100, 40));
        }
        for _ in 0..8 {
            let name = |pid: u32| pid.to_string();
            let calls = flame
                .of_calls()
                .map(|(m, order)| leaves.tree(&order, m, name));
            let tree = flame.tree(&report, calls.as_ref());
            assert!(tree.value > 0, "{}", flame.metric.title());
            check(&tree);
            flame.turn_metric();
        }
        assert_eq!(flame.metric, Metric::Busy);
        let on_cpu: u64 = report.threads.iter().map(|t| t.on_cpu_ns).sum();
        let waited: u64 = report.threads.iter().map(|t| t.wait.sum).sum();
        assert_eq!(flame.tree(&report, None).value, on_cpu + waited);
    }

    #[test]
    fn collapsed_stacks_have_each_block_with_its_own_value() {
        let mut leaves = stats::Leaves::default();
        let file = crate::syscalls::Names::default().get("/tmp/a;b");
        leaves.add(&stats::tests::call(1, Some(file), 0, 100, 40));
        let report = sample::empty();
        let mut flame = Flame::default();
        while flame.metric != Metric::Calls(stats::Metric::Time) {
            flame.turn_metric();
        }
        for wanted in ["x;/tmp;/a,b;read 40\n", "x;read;/tmp;/a,b 40\n"] {
            let (metric, order) = flame.of_calls().expect("calls");
            let tree = leaves.tree(&order, metric, |_| "x".into());
            assert_eq!(flame.folded(&report, Some(&tree)), wanted);
            flame.turn_levels();
        }
    }

    #[test]
    fn zoom_and_undo() {
        let report = sample::rich();
        let mut flame = Flame::default();
        flame.select(Move::Down, &report, None);
        let process = flame.selected.clone();
        assert_eq!(process.len(), 1);
        flame.zoom();
        flame.select(Move::Down, &report, None);
        flame.select(Move::Right, &report, None);
        flame.select(Move::Left, &report, None);
        flame.zoom();
        assert_eq!((flame.root.len(), flame.root.first()), (2, process.first()));
        flame.undo();
        assert_eq!(flame.root, process);
        flame.undo();
        flame.undo();
        assert!(flame.root.is_empty());
        // What is not there any more does no harm.
        flame.root = vec!["gone".into()];
        flame.selected = vec!["gone".into(), "too".into()];
        flame.select(Move::Right, &report, None);
    }
}
