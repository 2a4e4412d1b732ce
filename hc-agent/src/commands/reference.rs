// SPDX-License-Identifier: Apache-2.0
//! The command line reference of the manual page, in RST.
//!
//! The text is committed beside the page, which may be rendered without Rust.

use std::fmt::Write;

use clap::{Arg, ArgAction, Command};

/// Escape text for RST, with `words` as literals.
fn text(help: &str) -> String {
    help.replace('`', "``").replace('*', "\\*")
}

/// `FILE` or `--checks FILE`.
fn head(argument: &Arg) -> String {
    let mut names = Vec::new();
    if argument.get_action().takes_values() {
        for name in argument.get_value_names().unwrap_or_default() {
            names.push(name.to_string());
        }
    }
    if let Some(long) = argument.get_long() {
        names.insert(0, format!("--{long}"));
    }
    names.join(" ")
}

/// Help, accepted values, default and environment variable.
fn body(argument: &Arg) -> String {
    let mut sentences = Vec::new();
    if let Some(help) = argument.get_help() {
        sentences.push(format!("{}.", text(&help.to_string())));
    }
    let words: Vec<_> = argument
        .get_possible_values()
        .iter()
        .map(|word| format!("``{}``", word.get_name()))
        .collect();
    if argument.get_action().takes_values() && !words.is_empty() {
        sentences.push(format!("One of {}.", words.join(", ")));
    }
    if argument.get_action().takes_values() {
        for value in argument.get_default_values() {
            sentences.push(format!("Default: ``{}``.", value.to_string_lossy()));
        }
    }
    if let Some(name) = argument.get_env() {
        let name = name.to_string_lossy();
        sentences.push(format!("Environment variable: ``{name}``."));
    }
    sentences.join(" ")
}

fn render(command: &mut Command, path: &str, level: usize) -> String {
    let mut page = String::new();
    if level > 0 {
        let line = "-".repeat(path.len());
        let _ = write!(page, "{path}\n{line}\n\n");
        if let Some(about) = command.get_about() {
            let _ = write!(page, "{}.\n\n", text(&about.to_string()));
        }
    }
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let _ = write!(page, ".. program:: {path}\n\n.. code-block:: text\n\n");
    for line in usage.lines() {
        let _ = writeln!(page, "   {}", line.trim());
    }
    page.push('\n');
    for argument in command.get_arguments() {
        // By action: "version" is also the id of an option of probes.
        if !matches!(argument.get_action(), ArgAction::Help | ArgAction::Version) {
            let _ = write!(page, ".. option:: {}\n\n", head(argument));
            let _ = write!(page, "   {}\n\n", body(argument));
        }
    }
    for below in command.get_subcommands_mut() {
        if below.get_name() != "help" {
            let path = format!("{path} {}", below.get_name());
            page.push_str(&render(below, &path, level + 1));
        }
    }
    page
}

#[test]
fn the_manual_page_has_the_command_line() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../doc/source/cli/octavia-xdp-hc.inc"
    );
    let mut command = <super::Cli as clap::CommandFactory>::command();
    command.build();
    let page = render(&mut command, "octavia-xdp-hc", 0);
    let page = format!("{}\n", page.trim_end());
    if std::env::var_os("OCTAVIA_XDP_WRITE_REFERENCE").is_some() {
        std::fs::write(file, &page).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(file).unwrap(),
        page,
        "run this test with OCTAVIA_XDP_WRITE_REFERENCE=1 to write {file}"
    );
}
