import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { keyOf } from '../live';
import { attempt, canWrite, live } from '../state';
import { ago, bytes, cpu, percent } from '../format';
import { Card, Chart, Empty, List, Loading, Page, Spark, statusTone, T, Tag, useLive, type Column } from '../ui';
import type { Sandbox } from '../types';
import { post } from '../api';

export const linkOf = (s: { tenant: string; provider: string; name: string }, tab = ''): string =>
  `#/s/${encodeURIComponent(s.tenant || '-')}/${encodeURIComponent(s.provider)}/${encodeURIComponent(s.name)}${tab ? '/' + tab : ''}`;

function NewSandbox(): JSX.Element {
  const [name, setName] = useState('');
  const make = (e: Event) => {
    e.preventDefault();
    if (!name.trim()) return;
    void attempt(async () => {
      const s = await post<Sandbox>('/v1/sandboxes', { session: name.trim() });
      setName('');
      location.hash = linkOf(s);
    });
  };
  return (
    <form class="inline" onSubmit={make}>
      <label>Session<input value={name} onInput={(e) => setName(e.currentTarget.value)} placeholder="chat-42" maxLength={256} autocomplete="off" spellcheck={false} /></label>
      <button type="submit" class="primary" disabled={!name.trim()}>Make a sandbox</button>
    </form>
  );
}

export function Overview(): JSX.Element {
  useLive();
  const [filter, setFilter] = useState('');
  const [order, setOrder] = useState('name');
  const t = live.total;
  const rows = useMemo(() => {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    let out = live.sorted;
    if (words.length > 0) out = out.filter((s) => { const text = `${s.name} ${s.tenant} ${s.agent} ${s.session} ${s.status} ${s.provider}`.toLowerCase(); return words.every((w) => text.includes(w)); });
    if (order === 'cpu') out = [...out].sort((a, b) => (live.gauges.get(keyOf(b))?.cpu ?? 0) - (live.gauges.get(keyOf(a))?.cpu ?? 0));
    if (order === 'memory') out = [...out].sort((a, b) => (live.gauges.get(keyOf(b))?.figure.memoryBytes ?? 0) - (live.gauges.get(keyOf(a))?.figure.memoryBytes ?? 0));
    if (order === 'used') out = [...out].sort((a, b) => (a.lastUsedAt < b.lastUsedAt ? 1 : -1));
    return out;
  }, [filter, order, live.sorted, order === 'cpu' || order === 'memory' ? t : null]);
  const columns: Column<Sandbox>[] = [
    { name: 'Session', narrow: true, width: 'minmax(0, 1.5fr)', cell: (s) => <span class="two"><T s={s.session || s.scopeKey} /><small class="soft mono">{s.name}</small></span> },
    { name: 'State', narrow: true, width: '92px', cell: (s) => <Tag tone={statusTone(s.status)}>{s.status}</Tag> },
    { name: 'Tenant', cell: (s) => (s.tenant ? <T s={s.tenant} /> : <span class="soft">–</span>) },
    { name: 'Agent', cell: (s) => <T s={s.agent} /> },
    { name: 'CPU', width: '150px', cell: (s) => { const g = live.gauges.get(keyOf(s)); return <span class="gauge"><Spark values={g?.spark ?? [0]} label={`processor time of ${s.name}`} /><span class="num">{percent(g?.cpu ?? 0)}</span></span>; } },
    { name: 'Memory', width: '90px', right: true, cell: (s) => <span class="num">{bytes(live.gauges.get(keyOf(s))?.figure.memoryBytes ?? 0)}</span> },
    { name: 'Used', width: '100px', right: true, cell: (s) => <span class="soft">{ago(s.lastUsedAt)} ago</span> },
  ];
  const figures: [string, string, string?][] = [
    ['Sandboxes', t ? String(t.sandboxes) : '–', t ? `${t.running} running` : ''],
    ['Processors', t ? cpu(t.cpu) : '–', 'in use'],
    ['Memory', t ? bytes(t.memoryBytes) : '–', t ? `${t.pids} processes` : ''],
    ['Approvals', String(live.approvals.length), 'waiting'],
    ['Violations', String(live.violations.length), 'since opened'],
  ];
  return (
    <Page title="Overview" lead="What runs now, and what it uses." actions={canWrite() ? <NewSandbox /> : undefined}>
      <dl class="figures">{figures.map(([n, v, more]) => <div key={n}><dt>{n}</dt><dd>{v}<small>{more}</small></dd></div>)}</dl>
      {live.approvals.length > 0 && <p class="banner warn"><span>{live.approvals.length === 1 ? 'A question waits' : `${live.approvals.length} questions wait`} for an answer.</span><a class="button" href="#/approvals">Answer</a></p>}
      <div class="grid">
        <Card><Chart label="Processors in use" data={[live.series[0], live.series[1]]} format={cpu} floor={0.05} /></Card>
        <Card><Chart label="Memory" data={[live.series[0], live.series[2]]} format={bytes} floor={1 << 20} /></Card>
        <Card><Chart label="Disk, bytes a second" data={[live.series[0], live.series[4]]} format={bytes} floor={1024} /></Card>
        <Card><Chart label="Network, bytes a second" data={[live.series[0], live.series[5]]} format={bytes} floor={1024} /></Card>
      </div>
      <Card title="Sandboxes" note={`${rows.length} of ${live.sorted.length}`} wide>
        <div class="tools">
          <label>Filter<input type="search" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} placeholder="session, tenant, agent, state" spellcheck={false} /></label>
          <label>Order<select value={order} onChange={(e) => setOrder(e.currentTarget.value)}><option value="name">by name</option><option value="cpu">by processor time</option><option value="memory">by memory</option><option value="used">by last use</option></select></label>
        </div>
        {!live.ready ? <Loading /> : <List label="Sandboxes" rows={rows} columns={columns} keyOf={keyOf} href={(s) => linkOf(s)}
          empty={<Empty title={filter ? 'No sandbox matches the filter' : 'There is no sandbox yet'}>{filter ? '' : 'The first command of a session makes one.'}</Empty>} />}
      </Card>
    </Page>
  );
}
