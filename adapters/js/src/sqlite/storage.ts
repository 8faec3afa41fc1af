// What the component's imports are answered from: each function binds, runs and reads the statements of host/sql/ that
// have its name, and nothing is decided.

import { allowanceOf } from '../allowance.js';
import type {
  Delivery,
  Frozen,
  Given,
  HandOver,
  Instant,
  Link,
  Memory,
  Offer,
  OfferFilter,
  Project,
  SearchFilter,
  Selection,
  Session,
  SessionKey,
  Snapshot,
  StoredPage,
} from '../contract.js';
import { expressions, parseQuery } from '../search.js';
import { type AuditRow, type Store, StoreFailure } from '../store.js';
import * as rows from './rows.js';
import { Units, placeOf } from './units.js';

/** How many matches of a search are ranked: bm25 takes about a microsecond for each. */
const RANKED = 2_000;

/** Everything that is asked for in units of work. */
export abstract class Storage extends Units implements Store {
  memories(ids: string[], maxBytes: number): (Memory | undefined)[] {
    const allowance = allowanceOf(maxBytes);
    const params = { ids: rows.texts(ids) };
    return this.readPlaced(ids.length, 'memories_get', params, (row) => rows.memory(row, 1, allowance));
  }

  search(filter: SearchFilter, query: string, limit: number, maxBytes: number): Memory[] {
    const terms = this.#rareTerms(expressions(parseQuery(query)));
    if (terms === undefined) return [];
    const params = {
      owner: filter.owner,
      shared_in: filter.sharedIn,
      projects: rows.texts(filter.projects),
      at: rows.instant(filter.at),
      trusted_only: filter.trustedOnly,
      most: RANKED,
      limit,
    };
    const run = (terms: string) => {
      const allowance = allowanceOf(maxBytes);
      return this.read('memories_search', { ...params, terms }, (row) => rows.memory(row, 0, allowance));
    };
    let found = run(terms.rare);
    if (found.length < limit && terms.all.length > terms.rare.length) found = run(terms.all);
    return found.filter((memory) => memory !== undefined);
  }

  erase(ids: string[]): string[] {
    this.erasing(true);
    const there = this.changeReturning('memories_erase', { ids: rows.texts(ids) }, (row) => rows.text(row, 0));
    this.#eraseTerms();
    return there;
  }

  recordAccess(ids: string[], at: Instant): void {
    this.change('memories_record_access', { ids: rows.texts(ids), at: rows.instant(at) });
  }

  sessions(keys: SessionKey[]): (Session | undefined)[] {
    const params = { keys: rows.keys(keys) };
    return this.readPlaced(keys.length, 'directory_sessions', params, (row) => rows.session(row, 1));
  }

  projects(ids: string[]): (Project | undefined)[] {
    const params = { ids: rows.texts(ids) };
    return this.readPlaced(ids.length, 'directory_projects', params, (row) => rows.project(row, 1));
  }

  workspaceProjects(workspace: string): Project[] {
    return this.read('directory_workspace_projects', { workspace }, (row) => rows.project(row, 0));
  }

  links(agent: string, others: string[]): Link[] {
    return this.read('directory_links', { agent, others: rows.texts(others) }, rows.link);
  }

  insertSnapshot({ snapshot, pages }: Frozen): void {
    if (pages.length !== snapshot.pages) {
      const why = `${snapshot.snapshotRef} says that it has ${snapshot.pages} pages, and has ${pages.length}`;
      throw new StoreFailure('damaged', why);
    }
    this.change('snapshots_insert_snapshot', {
      snapshot_ref: snapshot.snapshotRef,
      owner_harness: snapshot.owner.harness,
      owner_session: snapshot.owner.id,
      created_at: rows.instant(snapshot.createdAt),
      expires_at: rows.instant(snapshot.expiresAt),
      keep_until: rows.instant(snapshot.keepUntil),
      revoked_at: snapshot.revokedAt === undefined ? undefined : rows.instant(snapshot.revokedAt),
      pages: snapshot.pages,
      state: snapshot.state,
    });
    this.#insertMemoryIds(snapshot);
    for (const page of pages) {
      this.change('snapshots_insert_page', {
        snapshot_ref: snapshot.snapshotRef,
        number: page.number,
        checksum: page.check,
        state: page.state,
        text: page.text,
      });
    }
  }

  snapshots(refs: string[], pages: Selection): (Frozen | undefined)[] {
    const params = { refs: rows.texts(refs) };
    const found = this.readPlaced(refs.length, 'snapshots_get', params, (row) => rows.snapshot(row, 1));
    switch (pages.tag) {
      case 'none':
        return found.map((snapshot) => snapshot && { snapshot, pages: [] });
      case 'one':
        return this.#withPages(found, pages.val);
      case 'all':
        return this.#withPages(found, undefined);
    }
  }

  revoke(refs: string[], at: Instant): void {
    this.change('snapshots_revoke', { refs: rows.texts(refs), at: rows.instant(at) });
  }

  overwrite(frozen: Frozen[]): void {
    // Also where the memories are in another store, which erases them itself or not.
    this.erasing(true);
    for (const { snapshot, pages } of frozen) {
      const snapshot_ref = snapshot.snapshotRef;
      this.change('snapshots_overwrite_state', { snapshot_ref, state: snapshot.state });
      this.change('snapshots_delete_memories', { refs: rows.texts([snapshot_ref]) });
      this.#insertMemoryIds(snapshot);
      for (const { number, check, state, text } of pages) {
        this.change('snapshots_overwrite_page', { snapshot_ref, number, checksum: check, state, text });
      }
    }
  }

  pinned(memoryIds: string[], at: Instant): string[] {
    const params = { memory_ids: rows.texts(memoryIds), at: rows.instant(at) };
    const pinned = this.readPlaced(memoryIds.length, 'snapshots_pinned', params, (row) => rows.text(row, 1));
    return pinned.filter((id) => id !== undefined);
  }

  holding(memoryIds: string[], limit: number): Frozen[] {
    const params = { memory_ids: rows.texts(memoryIds), limit };
    const found = this.read('snapshots_holding', params, (row) => rows.snapshot(row, 0));
    return this.#withPages(found, undefined).filter((frozen) => frozen !== undefined);
  }

  expired(at: Instant, limit: number): Snapshot[] {
    return this.read('snapshots_expired', { at: rows.instant(at), limit }, (row) => rows.snapshot(row, 0));
  }

  strip(refs: string[], keepUntil: Instant): void {
    this.erasing();
    const names = rows.texts(refs);
    this.change('snapshots_strip_pages', { refs: names });
    this.change('snapshots_delete_memories', { refs: names });
    this.change('snapshots_strip', { refs: names, keep_until: rows.instant(keepUntil) });
  }

  remove(refs: string[]): void {
    this.erasing();
    this.change('snapshots_remove', { refs: rows.texts(refs) });
  }

  insertHandOver(handOver: HandOver): boolean {
    const inserted = this.change('snapshots_insert_hand_over', {
      hand_over: handOver.id,
      parent_harness: handOver.parent.harness,
      parent_session: handOver.parent.id,
      call_id: handOver.callId,
      agent_type: handOver.agentType,
      snapshot_ref: handOver.snapshotRef,
      ids_key: handOver.idsKey,
      children: handOver.children,
      created_at: rows.instant(handOver.createdAt),
      expires_at: rows.instant(handOver.expiresAt),
      keep_until: rows.instant(handOver.keepUntil),
      task_digest: handOver.taskDigest,
      task_head: handOver.taskHead,
      task: handOver.task,
      state: handOver.state,
    });
    return inserted > 0;
  }

  findHandOvers(filter: OfferFilter, limit: number): Offer[] {
    const params = {
      parent_harness: filter.parent.harness,
      parent_session: filter.parent.id,
      call_id: filter.callId,
      snapshot_ref: filter.snapshotRef,
      ids_key: filter.idsKey,
      task_digest: filter.taskDigest,
      within: filter.within,
      agent_type: filter.agentType,
      open_only: filter.openOnly,
      with_task: filter.withTask,
      limit,
    };
    return this.read('snapshots_find_hand_overs', params, rows.offer).reverse();
  }

  insertDelivery(delivery: Delivery): boolean {
    const inserted = this.change('snapshots_insert_delivery', {
      child_harness: delivery.child.harness,
      child_session: delivery.child.id,
      occasion: delivery.occasion,
      snapshot_ref: delivery.snapshotRef,
      hand_over: delivery.handOver,
      place: delivery.place,
      at: rows.instant(delivery.at),
      keep_until: rows.instant(delivery.keepUntil),
      state: delivery.state,
      checksum: delivery.check,
      notice: delivery.notice,
    });
    return inserted > 0;
  }

  deliveries(child: SessionKey): Given[] {
    return this.readNumbered('snapshots_deliveries', ofChild(child), 25, rows.given);
  }

  replay(child: SessionKey, snapshotRef: string | undefined, page: number, at: Instant): StoredPage[] {
    const params = { ...ofChild(child), snapshot_ref: snapshotRef, page, at: rows.instant(at) };
    return this.readNumbered('snapshots_replay', params, 6, rows.storedPage);
  }

  endDeliveries(child: SessionKey, at: Instant): void {
    const key = ofChild(child);
    this.change('snapshots_end_deliveries_1', { ...key, at: rows.instant(at) });
    this.change('snapshots_end_deliveries_2', key);
    this.change('snapshots_end_deliveries_3', key);
  }

  removeUnattached(at: Instant, limit: number): number {
    this.erasing();
    const params = { at: rows.instant(at), limit };
    const handOvers = this.change('snapshots_remove_unattached_1', params);
    return handOvers + this.change('snapshots_remove_unattached_2', params);
  }

  settings(project: string | undefined, names: string[]): (string | undefined)[] {
    const params = { project, names: rows.texts(names) };
    return this.readPlaced(names.length, 'environment_settings', params, (row) => rows.textIf(row, 1));
  }

  appendAudit(entries: AuditRow[]): void {
    if (!this.isUnitOpen) {
      this.unitOf('write', () => this.appendAudit(entries));
      return;
    }
    for (const { at, session, export: name, component, rolledBack, entry } of entries) {
      this.change('audit_append', {
        at: rows.instant(at),
        rolled_back: rolledBack,
        harness: session?.harness,
        session: session?.id,
        export: name,
        component,
        action: entry.action,
        outcome: entry.outcome,
        snapshot_refs: rows.json(entry.snapshotRefs),
        memory_ids: rows.json(entry.memoryIds),
        attributes: rows.json(entry.attributes),
      });
    }
  }

  /** R17: what FTS5's own `secure-delete` leaves of deleted terms. */
  #eraseTerms(): void {
    const term = this.read('memories_erase_left', {}, (row) => rows.text(row, 0)).pop();
    if (term === undefined) return;
    this.change('memories_erase_other', { op: undefined, term });
    this.change('memories_erase_again', {});
    this.change('memories_erase_other', { op: 'delete', term });
  }

  /**
   * What to look for first: the rarest of the query's words and runs, as many as have no more than `RANKED` matches
   * together, and at least one. Ranking is what takes time, and common words rank next to nothing. And all that has
   * any match: where the rare ones find too little, since their matches are not for this reader, they must not hide
   * what the common ones find.
   */
  #rareTerms(terms: string[]): { rare: string; all: string } | undefined {
    const counted = terms
      .map((term) => ({ term, count: this.#countOf(term) }))
      .filter(({ count }) => count > 0)
      .sort((one, other) => one.count - other.count);
    let sum = 0;
    const tooMany = counted.findIndex(({ count }, place) => (sum += count) > RANKED && place > 0);
    const rare = tooMany < 0 ? counted : counted.slice(0, tooMany);
    if (rare.length === 0) return undefined;
    const joined = (list: typeof counted) => list.map(({ term }) => term).join(' OR ');
    return { rare: joined(rare), all: joined(counted) };
  }

  #countOf(term: string): number {
    const counts = this.read('memories_search_count', { term, most: RANKED }, (row) => rows.number(row, 0));
    return counts[0] ?? 0;
  }

  /** The pages of these snapshots, put with them. `page`: only that one. */
  #withPages(found: (Snapshot | undefined)[], page: number | undefined): (Frozen | undefined)[] {
    const refs = rows.texts(found.map((snapshot) => snapshot?.snapshotRef ?? ''));
    const frozen = found.map((snapshot): Frozen | undefined => snapshot && { snapshot, pages: [] });
    for (const row of this.read('snapshots_pages', { refs, page }, (row) => row)) {
      const holder = frozen[placeOf(row, frozen.length)];
      if (holder === undefined) throw new StoreFailure('damaged', 'a page of no snapshot');
      holder.pages.push(rows.page(row, 1));
    }
    return frozen;
  }

  #insertMemoryIds({ snapshotRef, memoryIds }: Snapshot): void {
    this.change('snapshots_insert_memories', { snapshot_ref: snapshotRef, memory_ids: rows.texts(memoryIds) });
  }
}

function ofChild(child: SessionKey): { child_harness: string; child_session: string } {
  return { child_harness: child.harness, child_session: child.id };
}
