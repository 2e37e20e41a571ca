import { Fragment, type JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { get, post, send } from '../api';
import { keyOf, keptPoints } from '../live';
import { attempt, canWrite, live, reaches } from '../state';
import { ago, bytes, cpu, httpOnly, moment, span, visible } from '../format';
import { Card, Chart, Confirm, Empty, List, Loading, Page, statusTone, T, Tabs, Tag, Trouble, useLive, useLoad } from '../ui';
import type { Applied, Change, Port, Process, Sandbox, Share, Usage } from '../types';
import { linkOf } from './overview';
import { EgressList, EvidenceWith, ViolationList } from './records';
import { TimelineList } from './timeline';
import { DisplayView } from './display';
import { Files } from './files';
import { TerminalView } from './terminal';

export interface At { base: string; tenant: string; name: string; provider: string }

const tabs: [string, string][] = [
  ['stats', 'Stats'], ['terminal', 'Terminal'], ['files', 'Files'], ['processes', 'Processes'], ['ports', 'Ports'], ['browser', 'Browser'], ['changes', 'Changes'],
  ['egress', 'Egress'], ['violations', 'Violations'], ['evidence', 'Evidence'], ['timeline', 'Timeline'],
];

export function SandboxPage({ tenant, provider, name, tab }: { tenant: string; provider: string; name: string; tab: string }): JSX.Element {
  useLive();
  const at: At = { base: '/v1/sandboxes/' + encodeURIComponent(name), tenant, name, provider };
  const followed = live.sandboxes.get(keyOf({ tenant, provider, name }));
  const got = useLoad<Sandbox>((signal) => get(`${at.base}?provider=${encodeURIComponent(provider)}`, { tenant, signal }), [name]);
  const [asking, ask] = useState('');
  const s = followed && { ...followed, imageMatch: got.data?.imageMatch ?? null, configMatch: got.data?.configMatch ?? null } || got.data;
  if (got.error && !followed) return <Page title="Sandbox"><Trouble error={got.error} retry={got.reload} /><p><a href="#/">Back to the overview</a></p></Page>;
  if (!s) return <Loading />;
  const gone = live.ready && live.connected && !followed && !got.loading;
  const act = (what: string, done: string, json: unknown = {}) => void attempt(async () => { await post(`${at.base}/${what}${what === 'recreate' ? '' : `?provider=${encodeURIComponent(provider)}`}`, json, { tenant }); }, done);
  const remove = () => void attempt(async () => { await send(`${at.base}?provider=${encodeURIComponent(provider)}&force=true`, { method: 'DELETE', tenant }); location.hash = '#/'; }, 'The sandbox is removed; its workspace stays');
  const actions = canWrite() ? <>
    {s.status === 'paused' ? <button type="button" onClick={() => act('resume', 'The sandbox is thawed', undefined)}>Thaw</button> : <button type="button" onClick={() => ask('pause')}>Freeze</button>}
    <button type="button" onClick={() => ask('recreate')}>Recreate</button>
    <button type="button" class="danger" onClick={() => ask('remove')}>Remove</button>
  </> : undefined;
  const scope = { tenant, sandbox: name };
  return (
    <Page title={<T s={s.session || s.scopeKey || s.name} />} actions={actions}
      lead={<><Tag tone={statusTone(gone ? 'missing' : s.status)}>{gone ? 'gone' : s.status}</Tag> <span class="mono">{s.name}</span>{s.tenant && <> of <T s={s.tenant} /></>} · agent <T s={s.agent} /> · {s.provider} · made {ago(s.createdAt)} ago{s.expiresAt && <> · ends {moment(s.expiresAt)}</>}</>}>
      <Tabs items={tabs.filter(([id]) => (id !== 'changes' || reaches('tenant')) && (id !== 'terminal' || canWrite()))} at={tab} href={(id) => linkOf({ tenant, provider, name }, id)} />
      {tab === 'stats' && <Stats at={at} s={s} />}
      {tab === 'terminal' && (canWrite() ? <TerminalView key={name} at={at} /> : <Empty title="This login may change nothing" />)}
      {tab === 'files' && <Files at={at} />}
      {tab === 'processes' && <Processes at={at} />}
      {tab === 'ports' && <Ports at={at} />}
      {tab === 'browser' && <BrowserTab at={at} />}
      {tab === 'changes' && <Changes at={at} />}
      {tab === 'egress' && <Card title="Egress" wide><EgressList scope={scope} /></Card>}
      {tab === 'violations' && <Card title="Violations" wide><ViolationList scope={scope} /></Card>}
      {tab === 'evidence' && <EvidenceWith scope={scope} />}
      {tab === 'timeline' && <Card title="Timeline" wide><TimelineList scope={scope} /></Card>}
      {asking === 'pause' && <Confirm title="Freeze the sandbox?" action="Freeze" onClose={() => ask('')} onDone={() => void attempt(() => post(`${at.base}/pause?force=true&provider=${encodeURIComponent(provider)}`, undefined, { tenant }), 'The sandbox is frozen')}><p>What runs in it stops until the next use.</p></Confirm>}
      {asking === 'recreate' && <Confirm title="Recreate the sandbox?" action="Recreate" danger onClose={() => ask('')} onDone={() => act('recreate', 'The sandbox is made anew', { force: true })}><p>What runs in it ends. Its workspace stays.</p></Confirm>}
      {asking === 'remove' && <Confirm title="Remove the sandbox?" action="Remove" danger onClose={() => ask('')} onDone={remove}><p>What runs in it ends. Its workspace stays for the session's next use.</p></Confirm>}
    </Page>
  );
}

function Stats({ at, s }: { at: At; s: Sandbox }): JSX.Element {
  const series = useRef<number[][]>([[], [], [], [], []]);
  const last = useRef<{ t: number; u: Usage } | undefined>(undefined);
  const got = useLoad<Usage>(async (signal) => {
    const u = await get<Usage>(`${at.base}/usage?provider=${encodeURIComponent(at.provider)}`, { tenant: at.tenant, signal, background: true });
    const t = Date.now() / 1000;
    const before = last.current;
    if (before && !u.error) {
      const took = Math.max(0.2, t - before.t);
      const values = [t, Math.max(0, u.cpuSeconds - before.u.cpuSeconds) / took, u.memoryBytes, u.pids, Math.max(0, u.netReceivedBytes + u.netSentBytes - before.u.netReceivedBytes - before.u.netSentBytes) / took];
      values.forEach((v, i) => { series.current[i].push(v); if (series.current[i].length > keptPoints) series.current[i].shift(); });
    }
    last.current = { t, u };
    return u;
  }, [at.base], 2000);
  const u = got.data;
  const d = series.current;
  const facts: [string, string][] = [
    ['Image', s.image || '–'], ['Scope', `${s.scope} ${s.scopeKey}`], ['Settings', s.configMatch === null ? 'not known' : s.configMatch ? 'as a new one would have' : 'changed since it was made'],
    ['Id', s.id], ['Last used', `${ago(s.lastUsedAt)} ago`], ['Made', moment(s.createdAt)],
    ...(s.preset ? [['Preset', s.preset] as [string, string]] : []), ...(s.workspace ? [['Workspace', s.workspace] as [string, string]] : []),
    ...Object.entries(s.labels ?? {}).map(([k, v]) => [`Label ${k}`, v] as [string, string]), ...Object.entries(s.metadata ?? {}).map(([k, v]) => [`Metadata ${k}`, v] as [string, string]),
  ];
  return (
    <>
      {got.error && <Trouble error={got.error} />}
      {u?.error && <p class="banner warn"><T s={u.error} /></p>}
      <div class="grid">
        <Card><Chart label="Processors in use" data={[d[0], d[1]]} format={cpu} floor={0.05} /></Card>
        <Card><Chart label="Memory" data={[d[0], d[2]]} format={bytes} floor={1 << 20} /></Card>
        <Card><Chart label="Processes" data={[d[0], d[3]]} format={(v) => v.toFixed(0)} floor={8} /></Card>
        <Card><Chart label="Network, bytes a second" data={[d[0], d[4]]} format={bytes} floor={1024} /></Card>
      </div>
      <Card title="About" wide>
        <dl class="facts wide">
          {u && <><div><dt>Memory</dt><dd>{bytes(u.memoryBytes)}{u.memoryLimitBytes > 0 ? ` of ${bytes(u.memoryLimitBytes)}` : ''}</dd></div><div><dt>Processes</dt><dd>{u.pids}{u.pidsLimit > 0 ? ` of ${u.pidsLimit}` : ''}</dd></div>
            <div><dt>Workspace</dt><dd>{u.workspaceComplete ? '' : 'more than '}{bytes(u.workspaceBytes)}</dd></div><div><dt>Processor time</dt><dd>{u.cpuSeconds.toFixed(1)} s</dd></div></>}
          {facts.map(([k, v]) => <div key={k}><dt>{visible(k)}</dt><dd class="mono">{visible(v)}</dd></div>)}
        </dl>
      </Card>
    </>
  );
}

function Processes({ at }: { at: At }): JSX.Element {
  const [signal, setSignal] = useState('TERM');
  const [line, setLine] = useState('');
  const got = useLoad<{ items: Process[] }>((stop, again) => get(at.base + '/processes', { tenant: at.tenant, signal: stop, background: again }), [at.base], 2000);
  const start = (e: Event) => {
    e.preventDefault();
    if (line.trim()) void attempt(async () => { await post(at.base + '/processes', { line }, { tenant: at.tenant }); setLine(''); got.reload(); }, 'Started');
  };
  const may = canWrite();
  return (
    <Card title="Processes" note="commands in the background, and the last that have ended" wide>
      {may && <div class="tools">
        <form class="inline" onSubmit={start}><label>Command<input value={line} onInput={(e) => setLine(e.currentTarget.value)} placeholder="python3 -m http.server 8000" spellcheck={false} autocomplete="off" /></label><button type="submit" disabled={!line.trim()}>Start in the background</button></form>
        <label>Signal<select value={signal} onChange={(e) => setSignal(e.currentTarget.value)}>{['TERM', 'INT', 'HUP', 'KILL', 'STOP', 'CONT', 'USR1', 'USR2'].map((n) => <option key={n}>{n}</option>)}</select></label>
      </div>}
      {got.error && <Trouble error={got.error} retry={got.reload} />}
      {got.loading ? <Loading /> : <List label="Processes" rows={[...(got.data?.items ?? [])].reverse()} keyOf={(p) => p.id} empty={<Empty title="No command runs in the background" />} columns={[
        { name: 'Command', narrow: true, width: 'minmax(0, 2fr)', cell: (p) => <span class="two"><T s={p.command} mono /><small class="soft">{visible(p.tag ?? '')}</small></span> },
        { name: 'Number', width: '80px', right: true, cell: (p) => <span class="num">{p.pid ?? '–'}</span> },
        { name: 'State', narrow: true, width: '130px', cell: (p) => <Tag tone={statusTone(p.state)}>{p.state}{p.exit ? ` ${p.exit.signal ?? p.exit.exitCode}` : ''}</Tag> },
        { name: 'Output', width: '90px', right: true, cell: (p) => <span class="num">{bytes(p.bytes)}</span> },
        { name: 'For', width: '100px', right: true, cell: (p) => <span class="soft">{p.endedAt ? span((Date.parse(p.endedAt) - Date.parse(p.startedAt)) / 1000) : ago(p.startedAt)}</span> },
        { name: '', narrow: true, width: '100px', right: true, cell: (p) => (may && p.state === 'running' ? <button type="button" aria-label={`Send ${signal} to ${p.pid ?? p.id}`} onClick={() => void attempt(async () => { await post(`${at.base}/processes/${encodeURIComponent(p.id)}/signal`, { signal }, { tenant: at.tenant }); got.reload(); }, `${signal} is sent`)}>{signal}</button> : <Fragment />) },
      ]} />}
    </Card>
  );
}

function Ports({ at }: { at: At }): JSX.Element {
  const [made, setMade] = useState<{ url: string; port: number }>();
  const got = useLoad<{ ports: Port[]; shares: Share[] }>(async (signal, again) => {
    const o = { tenant: at.tenant, signal, background: again };
    const [p, s] = await Promise.all([get<{ items: Port[] }>(at.base + '/ports', o), get<{ items: Share[] }>(at.base + '/shares', o)]);
    return { ports: p.items, shares: s.items };
  }, [at.base], 2000);
  const share = (port: number) => void attempt(async () => {
    const r = await post<{ url: string }>(at.base + '/shares', { port, ttlSeconds: 900 }, { tenant: at.tenant });
    setMade({ url: r.url, port });
    got.reload();
  });
  const may = canWrite();
  const address = httpOnly(made?.url);
  return (
    <>
      <Card title="Ports" note="at which programs inside listen" wide>
        {got.error && <Trouble error={got.error} retry={got.reload} />}
        {address && <p class="banner good" role="status"><span>The link to port {made!.port} is good for 15 minutes. Its page is served at a host name of its own.</span><a class="button primary" href={address} target="_blank" rel="noopener noreferrer">Open the preview</a></p>}
        {got.loading ? <Loading /> : <List label="Ports" rows={got.data?.ports ?? []} keyOf={(p) => `${p.address} ${p.port}`} empty={<Empty title="No program listens">Start one, for example python3 -m http.server 8000.</Empty>} columns={[
          { name: 'Port', narrow: true, width: '90px', cell: (p) => <span class="num">{p.port}</span> },
          { name: 'Address', width: '140px', cell: (p) => <T s={p.address} mono /> },
          { name: 'Program', narrow: true, width: 'minmax(0, 2fr)', cell: (p) => <T s={p.command} mono /> },
          { name: '', narrow: true, width: '120px', right: true, cell: (p) => (may ? <button type="button" aria-label={`Preview port ${p.port}`} onClick={() => share(p.port)}>Preview</button> : <Fragment />) },
        ]} />}
      </Card>
      <Card title="Links in force" wide>
        <List label="Links" rows={got.data?.shares ?? []} keyOf={(s) => s.id} empty={<Empty title="There is no link to a port" />} columns={[
          { name: 'Port', narrow: true, width: '80px', cell: (s) => <span class="num">{s.port || 'every'}</span> },
          { name: 'Host', width: 'minmax(0, 2fr)', cell: (s) => <T s={s.host} mono /> },
          { name: 'Expires', narrow: true, width: '150px', cell: (s) => <span class="soft">{moment(s.expires)}</span> },
          { name: 'Open to', width: '130px', cell: (s) => (s.public ? <Tag tone="warn">everyone</Tag> : <Tag>holders</Tag>) },
          { name: '', narrow: true, width: '110px', right: true, cell: (s) => (may ? <button type="button" class="danger" onClick={() => void attempt(async () => { await send(`${at.base}/shares/${encodeURIComponent(s.id)}`, { method: 'DELETE', tenant: at.tenant }); setMade(undefined); got.reload(); }, 'The link is revoked')}>Revoke</button> : <Fragment />) },
        ]} />
      </Card>
    </>
  );
}

interface BrowserInfo { name: string; status: string; createdAt: string }

function BrowserTab({ at }: { at: At }): JSX.Element {
  const got = useLoad<{ items: BrowserInfo[] }>((signal, again) => get(at.base + '/browser', { tenant: at.tenant, signal, background: again }), [at.base], 5000);
  const [shown, show] = useState(false);
  const [picture, setPicture] = useState('');
  const [address, setAddress] = useState('');
  const [busy, setBusy] = useState(false);
  useEffect(() => () => { if (picture) URL.revokeObjectURL(picture); }, [picture]);
  const doing = (fn: () => Promise<void>, done = '') => { setBusy(true); void attempt(fn, done).finally(() => { setBusy(false); got.reload(); }); };
  const start = (json: { display?: boolean }) => post<BrowserInfo>(at.base + '/browser', json, { tenant: at.tenant });
  const shot = async () => {
    const r = await post<{ data?: string }>(at.base + '/browser/screenshot', { width: 1280, height: 800 }, { tenant: at.tenant });
    const raw = Uint8Array.from(atob(r.data ?? ''), (c) => c.charCodeAt(0));
    if (raw[0] !== 0x89 || raw[1] !== 0x50) return; // no PNG
    setPicture(URL.createObjectURL(new Blob([raw], { type: 'image/png' })));
  };
  const b = got.data?.items[0];
  return (
    <Card title="Browser" note={b ? <Tag tone={statusTone(b.status)}>{visible(b.status)}</Tag> : undefined} wide>
      {got.error && <Trouble error={got.error} retry={got.reload} />}
      {canWrite() && <div class="actions">
        {!b && <button type="button" disabled={busy} onClick={() => doing(async () => { await start({}); }, 'The browser runs')}>Start</button>}
        {shown ? <button type="button" onClick={() => show(false)}>Hide the display</button>
          : <button type="button" disabled={busy} onClick={() => doing(async () => { await start({ display: true }); show(true); })}>{b ? 'Show the display' : 'Start with a display'}</button>}
        {b && <button type="button" disabled={busy} onClick={() => doing(shot)}>Take a picture of the page</button>}
        {b && <button type="button" class="danger" disabled={busy} onClick={() => doing(async () => { show(false); await send(at.base + '/browser?force=true', { method: 'DELETE', tenant: at.tenant }); setPicture(''); }, 'The browser is removed')}>Remove</button>}
      </div>}
      {busy && <p class="soft" role="status">Waiting for the browser…</p>}
      {b && canWrite() && <form class="inline" onSubmit={(e) => { e.preventDefault(); if (address) doing(async () => { await post(at.base + '/browser/navigate', { url: address }, { tenant: at.tenant }); if (!shown) await shot(); }); }}><label>Address<input value={address} onInput={(e) => setAddress(e.currentTarget.value)} placeholder="https://… or page.html" maxLength={8192} spellcheck={false} /></label><button type="submit" disabled={busy || !address}>Open</button></form>}
      {shown && <DisplayView at={at} />}
      {picture && <img class="picture" src={picture} alt="The page as the browser shows it" />}
      {!got.loading && !b && !shown && !got.error && <Empty title="The session has no browser">It needs browser.enabled in the settings, and the provider docker.</Empty>}
    </Card>
  );
}

const changeTone: Record<string, string> = { added: 'good', removed: 'bad', modified: 'info', renamed: 'info', mode: '', type: 'warn' };

function Patch({ text }: { text: string }): JSX.Element {
  const lines = text.split('\n');
  const most = 4000;
  return <pre class="code patch" tabIndex={0} aria-label="Difference">{lines.slice(0, most).map((l, i) => <span key={i} class={l.startsWith('+') ? 'add' : l.startsWith('-') ? 'del' : l.startsWith('@@') ? 'hunk' : undefined}>{visible(l) + '\n'}</span>)}{lines.length > most && <span class="soft">… and {lines.length - most} more lines</span>}</pre>;
}

function Changes({ at }: { at: At }): JSX.Element {
  const got = useLoad<{ items: Change[]; folder?: string; since?: string }>((signal) => get(at.base + '/changes', { tenant: at.tenant, signal }), [at.base]);
  const [path, setPath] = useState('');
  const [asking, ask] = useState<'apply' | 'discard' | ''>('');
  const [plan, setPlan] = useState<Applied>();
  const patch = useLoad<string>(async (signal) => (path ? (await send(`${at.base}/changes?format=patch&path=${encodeURIComponent(path)}`, { tenant: at.tenant, signal, headers: { Accept: 'text/x-diff' } })).text() : ''), [path]);
  const paths = path ? [path] : undefined;
  const what = path ? visible(path) : 'all changes';
  const look = () => void attempt(async () => { setPlan(await post<Applied>(at.base + '/apply', { dryRun: true, paths }, { tenant: at.tenant })); ask('apply'); });
  const apply = () => void attempt(async () => {
    const r = await post<Applied>(at.base + '/apply', { paths, digest: plan?.plan.digest }, { tenant: at.tenant });
    if (!r.applied) throw new Error(r.problem?.detail ?? 'Nothing was applied');
    setPath('');
    got.reload();
  }, 'The changes are applied');
  const discard = () => void attempt(async () => { await post(at.base + '/discard', { paths }, { tenant: at.tenant }); setPath(''); got.reload(); }, 'The changes are given up');
  if (got.loading) return <Loading />;
  if (got.error) return <Card title="Changes">{got.error.status === 404 ? <Empty title={visible(got.error.message)}>{visible(got.error.hint)}</Empty> : <Trouble error={got.error} retry={got.reload} />}</Card>;
  const rows = got.data!.items;
  return (
    <>
      <Card title="Changes" note={got.data!.folder ? <>of <span class="mono">{visible(got.data!.folder)}</span></> : got.data!.since ? <>since checkpoint <span class="mono">{visible(got.data!.since)}</span></> : undefined} wide>
        {canWrite() && rows.length > 0 && <div class="actions">
          {got.data!.folder !== undefined && reaches('admin') && <button type="button" class="primary" onClick={look}>Apply {path ? 'this change' : 'all'}</button>}
          <button type="button" class="danger" onClick={() => ask('discard')}>Discard {path ? 'this change' : 'all'}</button>
          {path && <button type="button" onClick={() => setPath('')}>Select none</button>}
          <button type="button" onClick={got.reload}>Compare again</button>
        </div>}
        <List label="Changes" rows={rows} keyOf={(c) => c.path} onPick={(c) => setPath(c.path)} height={360} empty={<Empty title="Nothing was changed" />} columns={[
          { name: 'Path', narrow: true, width: 'minmax(0, 2fr)', cell: (c) => <T s={c.from ? `${c.from} → ${c.path}` : c.path} mono /> },
          { name: 'Kind', narrow: true, width: '100px', cell: (c) => <Tag tone={changeTone[c.kind]}>{c.kind}</Tag> },
          { name: 'Size', width: '90px', right: true, cell: (c) => <span class="num">{bytes(c.size ?? 0)}</span> },
          { name: 'Risks', width: 'minmax(0, 1fr)', cell: (c) => <>{(c.findings ?? []).map((f) => <Tag key={f.risk} tone={f.consent === 'apply' ? 'warn' : 'bad'}>{f.risk}</Tag>)}{c.unread && <Tag tone="bad">not read</Tag>}</> },
        ]} />
      </Card>
      {path && <Card title={<T s={path} mono />} wide>{patch.loading ? <Loading /> : patch.error ? <Trouble error={patch.error} /> : <Patch text={patch.data ?? ''} />}</Card>}
      {asking === 'discard' && <Confirm title="Discard?" action="Discard" danger onClose={() => ask('')} onDone={discard}><p>Gives up <span class="mono">{what}</span> in the workspace. This cannot be taken back.</p></Confirm>}
      {asking === 'apply' && plan && <Confirm title="Apply to the folder on the host?" action="Apply" onClose={() => ask('')} onDone={apply}>
        <p><span class="mono">{visible(plan.folder)}</span></p>
        <p>{plan.plan.steps.length} steps{plan.plan.conflicts?.length ? `, ${plan.plan.conflicts.length} conflicts` : ''}{plan.plan.refused?.length ? `, ${plan.plan.refused.length} refused` : ''}.</p>
        <ul class="plain-list scroll">{plan.plan.steps.slice(0, 200).map((s) => <li key={s.path} class="mono">{s.action} {visible(s.path)}</li>)}{(plan.plan.conflicts ?? []).map((c) => <li key={c.path}><Tag tone="bad">conflict</Tag> <T s={c.path} mono /> <T s={c.why} /></li>)}{(plan.plan.refused ?? []).map((c) => <li key={c.path}><Tag tone="bad">refused</Tag> <T s={c.path} mono /></li>)}</ul>
      </Confirm>}
    </>
  );
}
