//! Sources from a folder.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::{Collector, Limits, Sources};
use crate::error::SourcesError;
use crate::text::one_line;

pub(super) fn read(path: &Path, limits: Limits) -> Result<Sources, SourcesError> {
    let mut collector = Collector::new(limits);
    read_folder(path, "", &mut collector)?;
    collector.finish()
}

fn read_folder(folder: &Path, prefix: &str, collector: &mut Collector) -> Result<(), SourcesError> {
    for entry in fs::read_dir(folder).map_err(|error| unreadable(folder, error))? {
        let entry = entry.map_err(|error| unreadable(folder, error))?;
        let place = entry.path();
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        collector.count()?;
        let path = format!("{prefix}{}", name.to_string_lossy());
        let refuse = |why| {
            Err(SourcesError::Path {
                path: one_line(&path),
                why,
            })
        };
        if name.to_str().is_none() {
            return refuse("it is not UTF-8");
        }
        super::check_path(&path)?;
        let kind = entry
            .file_type()
            .map_err(|error| unreadable(&place, error))?;
        if kind.is_dir() {
            read_folder(&place, &format!("{path}/"), collector)?;
        } else if kind.is_file() {
            let mut content = Vec::new();
            let file = File::open(&place).map_err(|error| unreadable(&place, error))?;
            let read = file.take(collector.appetite()).read_to_end(&mut content);
            read.map_err(|error| unreadable(&place, error))?;
            collector.add(path, content)?;
        } else {
            return refuse("it is a link or a device, not a file");
        }
    }
    Ok(())
}

fn unreadable(place: &Path, source: io::Error) -> SourcesError {
    let path = one_line(&place.to_string_lossy());
    SourcesError::Unreadable { path, source }
}
