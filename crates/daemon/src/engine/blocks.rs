//! Blocks of snapshots, one at a time: what the EBS direct API asks for.

use crate::engine::parts::{lock, unix_s};
use crate::engine::snapshots::{list_started, Put, Snapshots};
use crate::problem::{bad_input, from_io, refused, Outcome};
use base64::prelude::{Engine as _, BASE64_STANDARD};
use headrace_control::{Command, DirectRequest, ErrorKind, SnapshotCommand, SnapshotId, SnapshotRecord, SnapshotSource};
use headrace_protocol::snapshots::{BlockData, BlockView, Blocks, FinishSnapshot, PutBlock};
use headrace_store::snapshots::{changed_blocks, read_block, Builder, Manifest, BLOCK_BYTES};
use sha2::{Digest, Sha256};
use std::io;
use std::sync::{Arc, Mutex};

/// Validity of a block's token, s (EBS direct API text: 7 days).
const TOKEN_HOLDS_S: u64 = 7 * 86_400;

impl Snapshots {
    /// Makes the token of a block: the end of its validity, and a digest that only this daemon
    /// makes.
    fn make_token(&self, snapshot: &SnapshotId, block: u64, until_s: u64) -> String {
        let inner = Sha256::new().chain_update(self.secret).chain_update(format!("{snapshot}:{block}:{until_s}")).finalize();
        let outer = Sha256::new().chain_update(self.secret).chain_update(inner).finalize();
        format!("{until_s:x}={}", BASE64_STANDARD.encode(&outer[..18]))
    }

    /// Refuses a token that is not that of the block, or has expired.
    fn check_token(&self, snapshot: &SnapshotId, block: u64, token: &str) -> Outcome<()> {
        let until_s = token.split_once('=').and_then(|(until, _)| u64::from_str_radix(until, 16).ok()).unwrap_or(0);
        if self.make_token(snapshot, block, until_s) != token {
            return Err(bad_input(token, "is not the token of this block", "List the blocks, and use the token of the block.")
                .says("ValidationException", "The block token is not valid."));
        }
        if until_s < unix_s() {
            return Err(bad_input(token, "has expired", "List the blocks again.").says("ValidationException", "The block token has expired."));
        }
        Ok(())
    }

    /// Returns the blocks of a snapshot, all or those that differ from an earlier one.
    pub(crate) fn snapshot_blocks(&self, snapshot: &str, since: Option<&str>, start: u64, limit: usize) -> Outcome<Blocks> {
        let record = self.ledger.completed(snapshot)?;
        let before = since.map(|since| self.ledger.completed(since)).transpose()?;
        let failed = |id: &SnapshotId| {
            let id = id.to_string();
            move |error: io::Error| from_io(format!("the manifest of {id}"), &error)
        };
        let manifest = self.manifest(&record.id).map_err(failed(&record.id))?;
        let until_s = unix_s() + TOKEN_HOLDS_S;
        let token = |snapshot: &SnapshotId, block: u64| self.make_token(snapshot, block, until_s);
        let mut blocks: Vec<BlockView> = match &before {
            None => {
                let view = |block| BlockView { block, token: Some(token(&record.id, block)), since_token: None };
                manifest.set().from(start).take(limit + 1).map(view).collect()
            }
            Some(before) => {
                let earlier = self.manifest(&before.id).map_err(failed(&before.id))?;
                let view = |changed: headrace_store::snapshots::Changed| BlockView {
                    block: changed.index,
                    token: changed.in_second.then(|| token(&record.id, changed.index)),
                    since_token: changed.in_first.then(|| token(&before.id, changed.index)),
                };
                let changed = changed_blocks(&earlier, &manifest, start).take(limit + 1).map(|changed| changed.map(view));
                changed.collect::<io::Result<_>>().map_err(failed(&record.id))?
            }
        };
        let next = (blocks.len() > limit).then(|| blocks.pop().map(|last| last.block)).flatten();
        Ok(Blocks { blocks, next, size_gib: record.properties.size_gib, tokens_until_s: until_s })
    }

    /// Returns the bytes of a block.
    pub(crate) fn snapshot_block(&self, snapshot: &str, block: u64, token: Option<&str>) -> Outcome<BlockData> {
        let record = self.ledger.completed(snapshot)?;
        if let Some(token) = token {
            self.check_token(&record.id, block, token)?;
        }
        let manifest = self.manifest(&record.id).map_err(|error| from_io(format!("the manifest of {snapshot}"), &error))?;
        let cipher = self.cipher_of(&record).map_err(|error| from_io(format!("the key of {snapshot}"), &error))?;
        let data = read_block(&self.objects, &manifest, block, cipher.as_deref()).map_err(|error| from_io(format!("block {block}"), &error))?;
        let Some(data) = data else {
            let hint = "List the blocks that there are.";
            return Err(refused(ErrorKind::NotFound, block.to_string(), format!("is not a block of {snapshot}"), hint)
                .says("ResourceNotFoundException", format!("The snapshot {snapshot} does not have the block {block}.")));
        };
        Ok(BlockData { checksum: BASE64_STANDARD.encode(Sha256::digest(&data)), data: BASE64_STANDARD.encode(&data) })
    }

    /// Begins a snapshot that is put block by block.
    pub(crate) fn start_snapshot(&self, request: DirectRequest, encrypted: Option<bool>, kms_key: Option<String>) -> Outcome<SnapshotId> {
        let request = DirectRequest { key: self.keys.key_of_direct(request.parent.as_deref(), encrypted, kms_key)?, ..request };
        let events = self.ledger.command(&Command::Snapshot(SnapshotCommand::Start(request)))?;
        let id = list_started(&events).pop().map(|(id, _)| id);
        let record = id.and_then(|id| self.ledger.lab(|lab| lab.snapshots.records.get(&id).cloned()));
        let record = record.ok_or_else(|| crate::problem::could_not("snapshot", "was not made", "Try again."))?;
        if let Err(error) = self.open_builder(&record) {
            let events = self.ledger.command(&Command::Snapshot(SnapshotCommand::Abandon { snapshots: vec![record.id.clone()] }))?;
            self.after_deletions(&events);
            return Err(from_io("beginning the snapshot", &error));
        }
        Ok(record.id)
    }

    /// Opens the builder of a snapshot whose blocks are put one by one, over the blocks of its
    /// parent.
    fn open_builder(&self, record: &SnapshotRecord) -> io::Result<()> {
        let parent = match &record.properties.source {
            SnapshotSource::Direct { parent: Some(parent) } => Some(Manifest::load(&self.objects, parent.as_str())?),
            _ => None,
        };
        let cipher = self.cipher_of(record)?;
        let builder = Builder::open(self.objects.clone(), record.id.as_str(), record.properties.size_gib << 30, parent, cipher)?;
        lock(&self.builders).insert(record.id.clone(), Arc::new(Put { builder, checksums: Mutex::default() }));
        Ok(())
    }

    /// Opens a snapshot again after a restart: the blocks that were put are still there.
    pub(crate) fn resume_builder(&self, record: &SnapshotRecord) {
        if let Err(error) = self.open_builder(record) {
            self.fail_snapshot(&record.id, &error.to_string());
        }
    }

    /// Returns the id and the open builder of a snapshot whose blocks are put one by one.
    fn find_put(&self, snapshot: &str) -> Outcome<(SnapshotId, Arc<Put>)> {
        let record = self.ledger.lab(|lab| lab.snapshots.find(snapshot).cloned())?;
        let put = lock(&self.builders).get(&record.id).cloned();
        let rule = "is not being put block by block";
        let put = put.ok_or_else(|| {
            refused(ErrorKind::IncorrectState, snapshot, rule, "Begin one with snapshot.start.").says("ConflictException", "The snapshot is not pending.")
        })?;
        Ok((record.id, put))
    }

    /// Stores a block of a snapshot; refuses data that are not 512 KiB, or whose SHA-256 is another
    /// one.
    pub(crate) fn put_block(&self, args: &PutBlock) -> Outcome<()> {
        let (_, put) = self.find_put(&args.snapshot)?;
        let invalid = |value: &str, rule: &str| {
            bad_input(value, rule, "Send the 512 KiB of the block and their SHA-256, both in base64.").says("ValidationException", format!("{value} {rule}."))
        };
        let data = BASE64_STANDARD.decode(&args.data).map_err(|_| invalid("data", "is not base64"))?;
        if data.len() != BLOCK_BYTES {
            return Err(invalid("data", "is not 512 KiB"));
        }
        let digest: [u8; 32] = Sha256::digest(&data).into();
        if BASE64_STANDARD.encode(digest) != args.checksum {
            return Err(invalid("checksum", "is not the SHA-256 of the data"));
        }
        put.builder.put(args.block, &data).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => invalid("block", "is behind the end of the snapshot"),
            _ => from_io(format!("block {}", args.block), &error),
        })?;
        lock(&put.checksums).insert(args.block, digest);
        Ok(())
    }

    /// Takes the builder of a snapshot out. While a block is being put it stays, for that block and
    /// the next try, and None is returned.
    fn take_builder(&self, id: &SnapshotId) -> Option<Put> {
        let mut builders = lock(&self.builders);
        match Arc::try_unwrap(builders.remove(id)?) {
            Ok(put) => Some(put),
            Err(shared) => {
                builders.insert(id.clone(), shared);
                None
            }
        }
    }

    /// Completes a snapshot whose blocks were put one by one. Their number must be the one of
    /// `args`, and so must the checksum, unless blocks were put before a restart.
    pub(crate) fn finish_snapshot(&self, args: &FinishSnapshot) -> Outcome<SnapshotId> {
        let (id, put) = self.find_put(&args.snapshot)?;
        let count = put.builder.changed_blocks();
        let wrong = |rule: String| bad_input(&args.snapshot, rule.clone(), "Put what is missing, then complete it again.").says("ValidationException", rule);
        if count != args.changed_blocks {
            return Err(wrong(format!("{count} blocks were put, and {} are named", args.changed_blocks)));
        }
        if let Some(checksum) = &args.checksum {
            let all = lock(&put.checksums);
            // Those from before a restart are not known: their own checksums were checked.
            let all_known = all.len() as u64 == count;
            let digest = all.values().fold(Sha256::new(), |digest, block_digest| digest.chain_update(block_digest)).finalize();
            if all_known && BASE64_STANDARD.encode(digest) != *checksum {
                return Err(wrong("the checksum is not that of the blocks that were put".to_string()));
            }
        }
        drop(put);
        let put = self.take_builder(&id);
        let record = self.ledger.lab(|lab| lab.snapshots.records.get(&id).cloned());
        let (Some(put), Some(record)) = (put, record) else {
            return Err(refused(ErrorKind::IncorrectState, id.as_str(), "a block of it is being put", "Complete it when every block is answered."));
        };
        let parent = match &record.properties.source {
            SnapshotSource::Direct { parent } => parent.clone(),
            _ => None,
        };
        let stored = self.keep_wrapped_key(&record);
        let done = stored.and_then(|()| put.builder.complete()).and_then(|manifest| self.complete_snapshot(&record, &manifest, parent));
        if let Err(error) = done {
            self.resume_builder(&record);
            return Err(from_io("completing the snapshot", &error));
        }
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::encryption::Keys;
    use crate::engine::ledger::Ledger;
    use crate::engine::state::State;
    use crate::events::EventLog;
    use crate::journal::{Balances, Journal};
    use crate::keyring::Keyring;
    use headrace_control::{LabClock, SnapshotState};
    use headrace_store::Objects;

    /// A client that sent a block again after its own timeout, and completes when that is answered.
    #[test]
    fn a_snapshot_is_completed_after_the_last_block_was_put() {
        let folder = tempfile::tempdir().unwrap();
        let (journal, recovered) = Journal::open(folder.path()).unwrap();
        let events = EventLog::open(folder.path()).unwrap();
        let state = State::new(recovered.state.lab, journal, LabClock::new(0, 0, 1), Balances::default(), events);
        let ledger = Arc::new(Ledger::new(state));
        std::fs::create_dir(folder.path().join("keys")).unwrap();
        let keys = Arc::new(Keys::new(ledger.clone(), Keyring::open(&folder.path().join("keys"), |_| true).unwrap()));
        let objects = Objects::open(&format!("file://{}", folder.path().join("objects").display())).unwrap();
        let snapshots = Snapshots::new(ledger.clone(), keys, objects);
        let id = snapshots.start_snapshot(DirectRequest { size_gib: 1, ..DirectRequest::default() }, None, None).unwrap();
        let data = vec![7; BLOCK_BYTES];
        let checksum = BASE64_STANDARD.encode(Sha256::digest(&data));
        snapshots.put_block(&PutBlock { snapshot: id.to_string(), block: 3, data: BASE64_STANDARD.encode(&data), checksum }).unwrap();
        let finish = || snapshots.finish_snapshot(&FinishSnapshot { snapshot: id.to_string(), changed_blocks: 1, checksum: None });
        // A block that is being put holds this.
        let under_way = snapshots.find_put(id.as_str()).unwrap().1;
        for _ in 0..2 {
            assert_eq!(finish().unwrap_err().rule, "a block of it is being put");
        }
        drop(under_way);
        assert_eq!(finish().unwrap(), id);
        assert_eq!(ledger.lab(|lab| lab.snapshots.records[&id].state), SnapshotState::Completed);
    }
}
