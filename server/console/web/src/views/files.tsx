import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { get, post, Problem, send } from '../api';
import { attempt, canWrite, say } from '../state';
import { bytes, moment, visible } from '../format';
import { Card, Confirm, Empty, List, Loading, T, Tag, Trouble, useLoad, type Column } from '../ui';
import type { FileEntry } from '../types';
import type { At } from './sandbox';

// mostEdited is the size up to which a file is shown as text, in bytes; of a larger
// one the beginning is shown and cannot be edited.
const mostEdited = 1 << 20;
const mostPicture = 8 << 20;

const urlOf = (at: At, path: string): string => at.base + '/files/' + path.split('/').filter(Boolean).map(encodeURIComponent).join('/');

// pictureType is the type of a picture by its content. SVG and HTML are text: they can
// hold programs.
function pictureType(b: Uint8Array): string {
  const has = (at: number, ...v: number[]) => v.every((x, i) => b[at + i] === x);
  if (has(0, 0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a)) return 'image/png';
  if (has(0, 0xff, 0xd8, 0xff)) return 'image/jpeg';
  if (has(0, 0x47, 0x49, 0x46, 0x38)) return 'image/gif';
  if (has(0, 0x52, 0x49, 0x46, 0x46) && has(8, 0x57, 0x45, 0x42, 0x50)) return 'image/webp';
  return '';
}

interface Content { text?: string; picture?: string; size: number; etag: string; whole: boolean }

async function read(at: At, path: string, signal: AbortSignal): Promise<Content> {
  const [stat] = (await get<{ items: FileEntry[] }>(urlOf(at, path) + '?stat', { tenant: at.tenant, signal })).items;
  const most = /\.(png|jpe?g|gif|webp)$/i.test(path) ? mostPicture : mostEdited;
  const whole = stat.size <= most;
  const res = await send(urlOf(at, path), { tenant: at.tenant, signal, headers: whole ? {} : { Range: `bytes=0-${mostEdited - 1}` } });
  const data = new Uint8Array(await res.arrayBuffer());
  const etag = res.headers.get('ETag') ?? '';
  const type = whole ? pictureType(data) : '';
  if (type) return { picture: URL.createObjectURL(new Blob([data], { type })), size: stat.size, etag, whole };
  try {
    return { text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(whole ? data : data.subarray(0, data.length - 4)), size: stat.size, etag, whole };
  } catch {
    return { size: stat.size, etag, whole };
  }
}

async function download(at: At, path: string): Promise<void> {
  const res = await send(urlOf(at, path), { tenant: at.tenant });
  const a = document.createElement('a');
  a.href = URL.createObjectURL(new Blob([await res.arrayBuffer()], { type: 'application/octet-stream' }));
  a.download = path.split('/').pop()!.replace(/[^\w.\- ]/g, '_') || 'file';
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10_000);
}

function Viewer({ at, path, onClose, onSaved }: { at: At; path: string; onClose: () => void; onSaved: () => void }): JSX.Element {
  const got = useLoad<Content>((signal) => read(at, path, signal), [path]);
  const [text, setText] = useState<string>();
  const [tag, setTag] = useState('');
  const [conflict, setConflict] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    setText(got.data?.text);
    setTag(got.data?.etag ?? '');
    const url = got.data?.picture;
    return () => { if (url) URL.revokeObjectURL(url); };
  }, [got.data]);
  const [saved, setSaved] = useState<string>();
  const original = saved ?? got.data?.text;
  const changed = text !== undefined && text !== original;
  const editable = canWrite() && got.data?.whole === true && got.data.text !== undefined;
  const save = async (force = false) => {
    if (text === undefined) return;
    try {
      const res = await send(urlOf(at, path), { method: 'PUT', tenant: at.tenant, body: new Blob([text], { type: 'application/octet-stream' }), headers: { 'Content-Type': 'application/octet-stream', ...(force ? {} : { 'If-Match': tag }) } });
      const w = await res.json();
      setTag(w.etag);
      setSaved(text);
      say('Saved');
      onSaved();
    } catch (e) {
      if (e instanceof Problem && e.status === 412) setConflict(true);
      else say(e instanceof Problem ? e.message : String(e), true);
    }
  };
  return (
    <Card title={<T s={path} mono />} note={<>{got.data && <span>{bytes(got.data.size)}</span>}<button type="button" onClick={() => void attempt(() => download(at, path))}>Download</button><button type="button" onClick={onClose}>Close</button></>} wide>
      {got.loading ? <Loading /> : got.error ? <Trouble error={got.error} retry={got.reload} /> : got.data!.picture ? <img class="picture" src={got.data!.picture} alt={visible(path)} />
        : text === undefined ? <Empty title="This is no text">It can be downloaded.</Empty>
          : <>
            {!got.data!.whole && <p class="banner warn">The file is large: this is its beginning, and cannot be edited.</p>}
            <textarea ref={area} class="editor" aria-label={`Content of ${visible(path)}`} value={text} readOnly={!editable} spellcheck={false} autocomplete="off" rows={Math.min(32, Math.max(8, text.split('\n').length + 1))}
              onInput={(e) => setText(e.currentTarget.value)} onKeyDown={(e) => { if ((e.ctrlKey || e.metaKey) && e.key === 's') { e.preventDefault(); if (changed) void save(); } }} />
            {editable && <div class="actions"><button type="button" class="primary" disabled={!changed} onClick={() => void save()}>Save</button><button type="button" disabled={!changed} onClick={() => setText(original)}>Revert</button><span class="soft">{changed ? 'changed' : 'as it is in the sandbox'} · Ctrl+S saves</span></div>}
          </>}
      {conflict && <Confirm title="The file has changed meanwhile" action="Write over it" danger onClose={() => setConflict(false)} onDone={() => void save(true)}><p>It is not as it was when it was opened here. Write over it, or cancel, copy your text, and open it again.</p></Confirm>}
    </Card>
  );
}

export function Files({ at }: { at: At }): JSX.Element {
  const [dir, setDir] = useState('/workspace');
  const [open, setOpen] = useState('');
  const [name, setName] = useState('');
  const [removing, setRemoving] = useState<FileEntry>();
  const got = useLoad<{ items: FileEntry[]; next?: string }>(async (signal) => {
    const items: FileEntry[] = [];
    let cursor = '';
    do { // at most 2000 entries
      const page = await get<{ items: FileEntry[]; next?: string }>(`${urlOf(at, dir)}?list&limit=500${cursor ? '&cursor=' + encodeURIComponent(cursor) : ''}`, { tenant: at.tenant, signal });
      items.push(...page.items);
      cursor = page.next ?? '';
    } while (cursor && items.length < 2000);
    return { items, next: cursor };
  }, [at.base, dir]);
  const rows = useMemo(() => [...(got.data?.items ?? [])].sort((a, b) => Number(b.type === 'dir') - Number(a.type === 'dir') || (a.name < b.name ? -1 : 1)), [got.data]);
  const parts = dir.split('/').filter(Boolean);
  const within = (n: string) => (dir === '/' ? '/' + n : `${dir}/${n}`);
  const make = (e: Event) => {
    e.preventDefault();
    const n = name.trim();
    if (!n) return;
    if (n.endsWith('/')) void attempt(async () => { await post(at.base + '/files:mkdir', { path: within(n.slice(0, -1)), parents: true }, { tenant: at.tenant }); setName(''); got.reload(); }, 'The folder is made');
    else void attempt(async () => { await send(urlOf(at, within(n)), { method: 'PUT', tenant: at.tenant, body: new Blob([]), headers: { 'If-None-Match': '*', 'Content-Type': 'application/octet-stream' } }); setName(''); got.reload(); setOpen(within(n)); }, 'The file is made');
  };
  const columns: Column<FileEntry>[] = [
    { name: 'Name', narrow: true, width: 'minmax(0, 2fr)', cell: (f) => <span class={'entry ' + f.type}><T s={f.name + (f.type === 'dir' ? '/' : '') + (f.target ? ` → ${f.target}` : '')} mono /></span> },
    { name: 'Size', narrow: true, width: '90px', right: true, cell: (f) => <span class="num">{f.type === 'file' ? bytes(f.size) : ''}</span> },
    { name: 'Mode', width: '80px', cell: (f) => <span class="mono soft">{f.mode}</span> },
    { name: 'Modified', width: '160px', cell: (f) => <span class="soft">{moment(f.modifiedAt)}</span> },
    { name: '', width: '96px', right: true, cell: (f) => (canWrite() ? <button type="button" class="danger" aria-label={`Remove ${visible(f.name)}`} onClick={() => setRemoving(f)}>Remove</button> : <></>) },
  ];
  return (
    <>
      <Card wide title={<nav class="crumbs" aria-label="Folder"><button type="button" class="link" onClick={() => setDir('/')}>/</button>{parts.map((p, i) => <button type="button" class="link" key={i} onClick={() => setDir('/' + parts.slice(0, i + 1).join('/'))}>{visible(p)}/</button>)}</nav>} note={<button type="button" onClick={got.reload}>Read again</button>}>
        {canWrite() && <form class="inline" onSubmit={make}><label>New file, or folder with / at its end<input value={name} onInput={(e) => setName(e.currentTarget.value)} placeholder="notes.md" maxLength={255} spellcheck={false} autocomplete="off" /></label><button type="submit" disabled={!name.trim()}>Make</button></form>}
        {got.error && <Trouble error={got.error} retry={() => { setDir('/workspace'); got.reload(); }} />}
        {got.loading ? <Loading /> : !got.error && <List label="Files" rows={rows} columns={columns} keyOf={(f) => f.name} height={400} onPick={(f) => (f.type === 'dir' ? setDir(within(f.name)) : setOpen(within(f.name)))} empty={<Empty title="The folder is empty" />} />}
        {got.data?.next && <p class="soft">There are more than {rows.length} entries.</p>}
      </Card>
      {open && <Viewer key={open} at={at} path={open} onClose={() => setOpen('')} onSaved={got.reload} />}
      {removing && <Confirm title="Remove?" action="Remove" danger onClose={() => setRemoving(undefined)} onDone={() => void attempt(async () => { const f = removing; await send(urlOf(at, within(f.name)) + (f.type === 'dir' ? '?recursive=true' : ''), { method: 'DELETE', tenant: at.tenant }); if (open === within(f.name)) setOpen(''); got.reload(); }, 'Removed')}><p>Removes <T s={removing.name} mono />{removing.type === 'dir' ? ' with everything in it' : ''}. This cannot be taken back.</p></Confirm>}
      {rows.some((f) => f.type === 'other') && <p class="soft"><Tag>other</Tag> are sockets, pipes and devices.</p>}
    </>
  );
}
