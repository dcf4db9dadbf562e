//! Builds the kernel side with the distribution's clang, and its Rust twin from `events.h`.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

const SOURCE: &str = "src/bpf";

fn main() {
    println!("cargo:rerun-if-changed={SOURCE}");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");

    // The UAPI headers of Debian and Ubuntu keep asm/ under the machine's triple.
    let args: Vec<OsString> = [
        "-mcpu=v3".into(), // atomics that return the old value
        "-Wall".into(),
        "-Werror".into(),
        "-D__VMLINUX_H__".into(), // libbpf: registers under the kernel's names
        format!("-I/usr/include/{arch}-linux-gnu"),
    ]
    .map(OsString::from)
    .to_vec();

    for name in ["probe", "trial", "selftest"] {
        SkeletonBuilder::new()
            .source(format!("{SOURCE}/{name}.bpf.c"))
            .clang_args(&args)
            .build_and_generate(out.join(format!("{name}.skel.rs")))
            .unwrap_or_else(|e| panic!("{name}.bpf.c does not build (is clang installed?): {e:#}"));
    }

    bindgen::Builder::default()
        .header(format!("{SOURCE}/events.h"))
        .allowlist_file(format!("{SOURCE}/events.h"))
        .prepend_enum_name(false)
        .derive_default(true)
        .layout_tests(true)
        .generate()
        .expect("events.h does not parse (is libclang installed?)")
        .write_to_file(out.join("events.rs"))
        .expect("OUT_DIR is writable");
}
