//! The rules of `deny.toml`, without cargo-deny: building that takes longer than all the rest of CI.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use phux_trace_tests::machine::output_of;
use serde::Deserialize;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

#[derive(Debug, Deserialize)]
struct Rules {
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Graph {
    targets: Vec<String>,
    exclude_dev: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Bans {
    multiple_versions: String,
    skip: Vec<Skip>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Skip {
    #[serde(rename = "crate")]
    krate: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Sources {
    unknown_registry: String,
    unknown_git: String,
    allow_registry: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
    resolve: Resolve,
}

#[derive(Debug, Clone, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    kind: Option<String>,
}

fn rules() -> Rules {
    let text = std::fs::read_to_string(format!("{ROOT}/deny.toml")).expect("deny.toml");
    toml::from_str(&text).expect("the rules")
}

/// The packages that the workspace ships, its own left out.
fn shipped(rules: &Rules) -> Vec<Package> {
    assert!(rules.graph.exclude_dev, "only this is built here");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--all-features",
    ]);
    for target in &rules.graph.targets {
        cargo.args(["--filter-platform", target]);
    }
    let text = output_of(cargo.current_dir(ROOT));
    let metadata: Metadata = serde_json::from_str(&text).expect("cargo metadata");
    let nodes: BTreeMap<&str, &Node> = metadata
        .resolve
        .nodes
        .iter()
        .map(|n| (n.id.as_str(), n))
        .collect();
    let tests = metadata
        .packages
        .iter()
        .find(|p| p.name == env!("CARGO_PKG_NAME"));
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    // This package is a workspace's member, but nothing that is shipped.
    let mut todo: Vec<&str> = metadata
        .workspace_members
        .iter()
        .map(String::as_str)
        .filter(|id| tests.is_none_or(|t| t.id != *id))
        .collect();
    while let Some(id) = todo.pop() {
        if seen.insert(id) {
            let used = nodes[id]
                .deps
                .iter()
                .filter(|d| d.dep_kinds.iter().any(|k| k.kind.as_deref() != Some("dev")));
            todo.extend(used.map(|d| d.pkg.as_str()));
        }
    }
    let found: Vec<Package> = metadata
        .packages
        .iter()
        .filter(|p| seen.contains(p.id.as_str()) && !metadata.workspace_members.contains(&p.id))
        .cloned()
        .collect();
    assert!(
        found.iter().any(|p| p.name == "serde"),
        "the graph is empty: {found:?}"
    );
    found
}

/// True when a licence expression can be met with the allowed ones.
fn is_allowed(expression: &str, allow: &[spdx::Licensee]) -> bool {
    // Older crates write MIT/Apache-2.0.
    spdx::Expression::parse_mode(expression, spdx::ParseMode::LAX)
        .is_ok_and(|e| e.evaluate(|need| allow.iter().any(|licensee| licensee.satisfies(need))))
}

fn licensees(names: &[String]) -> Vec<spdx::Licensee> {
    names
        .iter()
        .map(|name| spdx::Licensee::parse(name).unwrap_or_else(|e| panic!("{name}: {e}")))
        .collect()
}

#[test]
fn licences_are_allowed() {
    let rules = rules();
    let allow = licensees(&rules.licenses.allow);
    let bad: Vec<String> = shipped(&rules)
        .iter()
        .filter(|p| !p.license.as_deref().is_some_and(|l| is_allowed(l, &allow)))
        .map(|p| format!("{} {}: {:?}", p.name, p.version, p.license))
        .collect();
    assert!(bad.is_empty(), "not allowed by deny.toml: {bad:#?}");
}

#[test]
fn each_crate_has_one_version() {
    let rules = rules();
    assert_eq!(rules.bans.multiple_versions, "deny");
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in shipped(&rules) {
        versions
            .entry(package.name)
            .or_default()
            .push(package.version);
    }
    versions.retain(|_, v| v.len() > 1);
    for skip in &rules.bans.skip {
        assert!(!skip.reason.is_empty(), "{}: why?", skip.krate);
        // `name` or `name@version`: that version does not count.
        let (name, version) = skip.krate.split_once('@').unwrap_or((&skip.krate, ""));
        let row = versions.get_mut(name);
        let row = row.unwrap_or_else(|| panic!("{name} has one version: the skip is out of date"));
        if version.is_empty() {
            row.clear();
        } else {
            row.retain(|v| v != version);
        }
    }
    versions.retain(|_, v| v.len() > 1);
    assert!(
        versions.is_empty(),
        "several versions, not skipped in deny.toml: {versions:#?}"
    );
}

#[test]
fn everything_comes_from_an_allowed_registry() {
    let rules = rules();
    let sources = &rules.sources;
    assert_eq!(
        (
            sources.unknown_registry.as_str(),
            sources.unknown_git.as_str()
        ),
        ("deny", "deny")
    );
    for package in shipped(&rules) {
        let source = package.source.unwrap_or_default();
        let known = sources
            .allow_registry
            .iter()
            .any(|r| source == format!("registry+{r}"));
        assert!(known, "{}: {source:?}", package.name);
    }
}

#[test]
fn expressions_are_evaluated_and_not_searched_for_words() {
    let allow = licensees(&["MIT".into(), "Apache-2.0 WITH LLVM-exception".into()]);
    for good in [
        "MIT",
        "GPL-3.0-only OR MIT",
        "MIT/Apache-2.0",
        "Apache-2.0 WITH LLVM-exception",
    ] {
        assert!(is_allowed(good, &allow), "{good}");
    }
    for bad in [
        "GPL-3.0-only",
        "MIT AND GPL-3.0-only",
        "Apache-2.0",
        "(MIT OR ISC) AND Zlib",
        "?",
    ] {
        assert!(!is_allowed(bad, &allow), "{bad}");
    }
}
