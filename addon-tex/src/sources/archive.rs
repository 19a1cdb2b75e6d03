//! Sources as a zip file.

use std::collections::BTreeSet;
use std::io::{Cursor, Read, Write};

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use super::{Collector, Limits, Sources};
use crate::error::SourcesError;
use crate::text::one_line;

/// The type in a Unix mode, and that of a plain file.
const TYPE: u32 = 0o170_000;
const PLAIN: u32 = 0o100_000;

/// What each entry of the directory at a zip file's end begins with, and the least that it takes.
const HEADER: &[u8] = b"PK\x01\x02";
const HEADER_LENGTH: usize = 46;

pub(super) fn read(bytes: &[u8], limits: Limits) -> Result<Sources, SourcesError> {
    if bytes.len() as u64 > limits.zip_bytes {
        return Err(SourcesError::ZipTooLarge {
            limit: limits.zip_bytes,
        });
    }
    // The whole directory is read before its length is known, and takes many times its size then.
    if has_more_headers(bytes, limits.files) {
        return Err(SourcesError::TooMany {
            limit: limits.files,
        });
    }
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(SourcesError::Zip)?;
    if archive.has_duplicate_names() {
        let path = first_twice(bytes, archive.central_directory_start());
        return Err(SourcesError::Twice { path });
    }
    let mut collector = Collector::new(limits);
    for index in 0..archive.len() {
        collector.count()?;
        let entry = archive.by_index_data(index).map_err(SourcesError::Zip)?;
        // Many write UTF-8 without saying so.
        let path = match std::str::from_utf8(entry.name_raw()) {
            Ok(path) => path.to_owned(),
            Err(_) => entry.name().map_err(SourcesError::Zip)?.into_owned(),
        };
        if entry.is_dir() {
            super::check_path(path.trim_end_matches('/'))?;
            continue;
        }
        let kind = |why| SourcesError::Path {
            path: one_line(&path),
            why,
        };
        if entry.encrypted() {
            return Err(kind("it is encrypted"));
        }
        if entry
            .unix_mode()
            .is_some_and(|mode| ![0, PLAIN].contains(&(mode & TYPE)))
        {
            return Err(kind("it is a link or a device, not a file"));
        }
        super::check_path(&path)?;
        // What the headers say of the size may be a lie.
        let appetite = collector.appetite();
        let mut content = Vec::new();
        let file = archive.by_index(index).map_err(SourcesError::Zip)?;
        let read = file.take(appetite).read_to_end(&mut content);
        read.map_err(|error| SourcesError::Zip(ZipError::Io(error)))?;
        collector.add(path, content)?;
    }
    collector.finish()
}

/// Whether there may be more than `limit` entries; a zip file within this one counts with its own.
///
/// The record at the end says how many there are. But there can be several, for 32 and for 64 bits, and it depends on all of
/// what they say which one is believed. No entry is without a header.
fn has_more_headers(bytes: &[u8], limit: usize) -> bool {
    let headers = bytes.windows(HEADER.len()).filter(|it| *it == HEADER);
    headers.take(limit.saturating_add(1)).count() > limit
}

/// The first name in the directory at `start` that was there before. To the reader, the last of a name is the only one.
fn first_twice(bytes: &[u8], start: u64) -> String {
    let mut names = BTreeSet::new();
    let mut rest = usize::try_from(start)
        .ok()
        .and_then(|start| bytes.get(start..));
    while let Some(header) = rest.filter(|it| it.starts_with(HEADER) && it.len() >= HEADER_LENGTH) {
        let length = |at| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let name_end = HEADER_LENGTH + length(28);
        let name = header.get(HEADER_LENGTH..name_end).unwrap_or_default();
        if !names.insert(name) {
            return one_line(&String::from_utf8_lossy(name));
        }
        rest = header.get(name_end + length(30) + length(32)..);
    }
    "a file".to_owned()
}

pub(super) fn write(sources: &Sources) -> Result<Vec<u8>, SourcesError> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, content) in sources.files() {
        let options = SimpleFileOptions::default();
        writer
            .start_file(path, options)
            .map_err(SourcesError::Zip)?;
        let written = writer.write_all(content);
        written.map_err(|error| SourcesError::Zip(ZipError::Io(error)))?;
    }
    Ok(writer.finish().map_err(SourcesError::Zip)?.into_inner())
}
