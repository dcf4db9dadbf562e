//! Where the programs under test are.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Set by `scripts/test`, which has built everything: no need to ask cargo again.
const PREBUILT: &str = "PHUX_TRACE_PREBUILT";

/// Path of the workspace's program `name`, built first if it may be out of date.
pub fn bin(name: &str) -> PathBuf {
    built(&["--bin", name], Path::new(name))
}

/// Path of example `name` of package `package`, built first if it may be out of date.
pub fn example(package: &str, name: &str) -> PathBuf {
    built(
        &["--package", package, "--example", name],
        &Path::new("examples").join(name),
    )
}

/// Path of the shared object of the workspace's package `name`, built first if it may be out of date.
pub fn library(name: &str) -> PathBuf {
    let file = format!("lib{}.so", name.replace('-', "_"));
    built(&["--lib", "--package", name], Path::new(&file))
}

fn built(what: &[&str], file: &Path) -> PathBuf {
    let dir = profile_dir();
    if std::env::var_os(PREBUILT).is_none() {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.arg("build").arg("--quiet").args(what);
        cargo
            .arg("--manifest-path")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"));
        if dir.ends_with("release") {
            cargo.arg("--release");
        }
        if let Some(target) = dir.parent() {
            cargo.arg("--target-dir").arg(target);
        }
        let status = cargo.status().unwrap_or_else(|e| panic!("{cargo:?}: {e}"));
        assert!(status.success(), "{cargo:?}: {status}");
    }
    let path = dir.join(file);
    assert!(path.is_file(), "{} is not built", path.display());
    path
}

/// `target/debug` or `target/release`: two above a test's own file, one above a program's.
pub fn profile_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("a process has a file");
    let mut dir = exe.parent().expect("a file is in a folder");
    if dir.ends_with("deps") {
        dir = dir.parent().expect("deps is in a profile's folder");
    }
    dir.to_owned()
}
