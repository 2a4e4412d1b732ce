// SPDX-License-Identifier: Apache-2.0
//! Modules of the crate import one way.
//!
//! Two granularities: files, and the rooms of `src/` (a folder, or a file beside
//! them). What counts is each path below `crate`, `self` or `super`, in `use` and in the
//! middle of code; a file that declares another by `mod` does not import it by that. A
//! path that ends at a folder means its `mod.rs`: files of one folder name each other,
//! not the folder's face.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Each source file by the path of its module, as `config::types`; `mod.rs` stands for
/// its folder. Test modules are left out.
fn modules(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let name = module(path.strip_prefix(root).unwrap());
                if !name.ends_with("tests") && name != "main" {
                    found.insert(name, without_tests(&path));
                }
            }
        }
    }
    found
}

fn module(path: &Path) -> String {
    let mut path = path.with_extension("");
    if path.ends_with("mod") {
        path = path.parent().map(PathBuf::from).unwrap();
    }
    path.to_str().unwrap().replace('/', "::")
}

/// The code without comments, and without the test module at its end.
fn without_tests(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("\n#[cfg(test)]\nmod tests").next().unwrap();
    let lines = code.lines().map(|line| line.split("//").next().unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

/// Every path that begins with one of the words: `use crate::a::{b, c::d}` has two.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for word in ["crate", "self", "super"] {
        let start = format!("{word}::");
        for (at, _) in code.match_indices(&start) {
            let before = code[..at].chars().next_back();
            if !before.is_some_and(|c| c.is_alphanumeric() || "_:$".contains(c)) {
                tree(&code[at..], &[], &mut found);
            }
        }
    }
    found
}

/// Read one path or tree of paths; returns the rest of the code.
fn tree<'a>(code: &'a str, prefix: &[String], found: &mut Vec<Vec<String>>) -> &'a str {
    let mut path = prefix.to_vec();
    let mut rest = code.trim_start();
    loop {
        let end = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        path.push(rest[..end].to_owned());
        rest = &rest[end..];
        let Some(next) = rest.strip_prefix("::") else {
            found.push(path);
            return rest;
        };
        rest = next;
        if let Some(inside) = rest.strip_prefix('{') {
            rest = inside;
            while !rest.trim_start().starts_with('}') {
                rest = tree(rest, &path, found).trim_start();
                rest = rest.strip_prefix(" as ").unwrap_or(rest);
                rest = rest.strip_prefix(',').unwrap_or(rest);
            }
            return rest.trim_start().strip_prefix('}').unwrap();
        }
    }
}

/// The file that a path names, seen from a module.
fn target(from: &str, path: &[String], all: &BTreeMap<String, String>) -> Option<String> {
    let mut at: Vec<&str> = match path[0].as_str() {
        "crate" => Vec::new(),
        _ => from.split("::").collect(),
    };
    let mut names = path.iter().map(String::as_str).peekable();
    while let Some(word) = names.next_if(|w| matches!(*w, "crate" | "self" | "super")) {
        if word == "super" {
            at.pop();
        }
    }
    at.extend(names);
    // The last part that is no module is a name within one.
    while !at.is_empty() {
        let name = at.join("::");
        if all.contains_key(&name) {
            return Some(name);
        }
        at.pop();
    }
    None
}

fn imports(all: &BTreeMap<String, String>) -> Graph {
    let mut graph = Graph::new();
    for (from, code) in all {
        let targets = paths(code)
            .into_iter()
            .filter_map(|path| target(from, &path, all))
            .filter(|to| to != from);
        graph.insert(from.clone(), targets.collect());
    }
    graph
}

/// The same between rooms.
fn rooms(graph: &Graph) -> Graph {
    let room = |module: &str| module.split("::").next().unwrap().to_owned();
    let mut joined = Graph::new();
    for (from, targets) in graph {
        let from = room(from);
        let others = targets.iter().map(|to| room(to)).filter(|to| *to != from);
        let others: Vec<_> = others.collect();
        joined.entry(from).or_default().extend(others);
    }
    joined
}

/// The circles, and what leads from one to another: what is left after all that imports
/// nothing that is left, or that nothing left imports, has gone.
fn circles(mut graph: Graph) -> Graph {
    loop {
        let imported: BTreeSet<_> = graph.values().flatten().cloned().collect();
        let gone: BTreeSet<_> = graph
            .iter()
            .filter(|(name, to)| to.is_empty() || !imported.contains(*name))
            .map(|(name, _)| name.clone())
            .collect();
        if gone.is_empty() {
            return graph;
        }
        graph.retain(|name, _| !gone.contains(name));
        for targets in graph.values_mut() {
            targets.retain(|name| !gone.contains(name));
        }
    }
}

fn sources() -> BTreeMap<String, String> {
    modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let graph = imports(&sources());
    let edges: usize = graph.values().map(BTreeSet::len).sum();
    assert!(graph.len() > 40 && edges > 100, "{edges} imports found");
    let circles = circles(graph);
    assert!(circles.is_empty(), "{circles:#?}");
}

#[test]
fn no_rooms_import_each_other_in_a_circle() {
    let circles = circles(rooms(&imports(&sources())));
    assert!(circles.is_empty(), "{circles:#?}");
}

#[test]
fn a_circle_is_found_however_it_is_written() {
    for line in [
        "use crate::engine::Command;",
        "use crate::{key::Key, engine::{self, Command}};",
        "fn f() { crate::engine::f(); }",
        "use super::engine::Command;",
    ] {
        let mut sources = sources();
        let state = sources.get_mut("state").unwrap();
        state.insert_str(0, &format!("{line}\n"));
        let graph = imports(&sources);
        assert!(graph["state"].contains("engine"), "{line}");
        let left = circles(graph);
        assert!(left.contains_key("state"), "{line}");
    }
    // Within a room.
    let mut sources = sources();
    let types = sources.get_mut("config::types").unwrap();
    types.insert_str(0, "use super::load;\n");
    assert!(circles(imports(&sources)).contains_key("config::load"));
}
