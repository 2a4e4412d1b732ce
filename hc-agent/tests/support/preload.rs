// SPDX-License-Identifier: Apache-2.0
//! The library `preload.c`, which is loaded before the program under test.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;

/// Built once for all tests. Statics are not dropped, so the build directory has it.
static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/preload.c");
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let built = folder.path().join("preload.so");
    // The compiler that ring is built with.
    let status = Command::new("cc")
        .args(["-Wall", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(&built)
        .arg(source)
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    let library = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("preload.so");
    // Another test program may be loading the old one.
    std::fs::rename(built, &library).unwrap();
    library
});

/// The path of the library.
pub(crate) fn library() -> &'static PathBuf {
    &LIBRARY
}
