//! Who is meant by what was typed.

use std::ffi::{OsStr, OsString};

use anyhow::{Result, bail};

use super::wrapped::Wrapped;
use crate::privileges::Filer;
use crate::target::{Ask, Invoker, ResolveError, Survey, Target, resolve};
use crate::tui;

/// Who is meant by a name or a pid, or is about to become the command.
pub(crate) fn find(
    (name, pid): (Option<&OsStr>, Option<u32>),
    command: &[OsString],
    wrapped: Option<&Wrapped>,
    survey: &Survey,
) -> Result<Target> {
    let ask = match (wrapped, pid) {
        (Some(w), _) => Ask::Pid(w.pid().into()),
        (None, Some(pid)) => Ask::Pid(pid.into()),
        (None, None) => Ask::parse(name),
    };
    let mut target = resolve(&ask, survey, Invoker::current())?;
    if wrapped.is_some() {
        let words: Vec<_> = command.iter().map(|a| a.to_string_lossy()).collect();
        target.asked = words.join(" ");
    }
    Ok(target)
}

/// Has the person at the terminal choose, where that is all that is missing.
///
/// # Errors
/// The one that there was, or nothing was chosen.
pub(super) fn choose(error: anyhow::Error, files: &Filer, survey: &Survey) -> Result<Target> {
    let candidates = match error.downcast_ref() {
        Some(
            ResolveError::SeveralMultiplexers { candidates }
            | ResolveError::SeveralUsers { candidates, .. }
            | ResolveError::OtherNamespace { candidates, .. }
            | ResolveError::UnknownName { candidates, .. }
            | ResolveError::NoMultiplexer { candidates, .. },
        ) if !candidates.0.is_empty() => candidates.0.clone(),
        _ => return Err(error),
    };
    let why = error.to_string();
    let why = why.split(['.', ':']).next().unwrap_or_default().to_owned();
    let Some(chosen) = files.run(move || tui::choose(why, candidates))?? else {
        bail!("no target was chosen");
    };
    // A multiplexer is all its processes, as if it had been named.
    let named = resolve(&Ask::Name(chosen.name), survey, Invoker::current());
    match named {
        Ok(target) if target.processes.iter().any(|p| p.pid == chosen.pid) => Ok(target),
        _ => Ok(resolve(
            &Ask::Pid(chosen.pid.into()),
            survey,
            Invoker::current(),
        )?),
    }
}

pub(crate) fn describe(target: &Target) -> String {
    let pids: Vec<String> = target
        .processes
        .iter()
        .take(4)
        .map(|p| p.pid.to_string())
        .collect();
    let more = target.processes.len().saturating_sub(4);
    let more = if more == 0 {
        String::new()
    } else {
        format!(" and {more} more")
    };
    let name = target.processes.first().map_or("", |p| p.comm.as_str());
    format!(
        "{} (pid {}{more})",
        crate::escape::name(name),
        pids.join(", ")
    )
}
