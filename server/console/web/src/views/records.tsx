import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { get } from '../api';
import { live, reaches, session } from '../state';
import { bytes, moment, visible } from '../format';
import { Card, Empty, List, Loading, Page, severityTone, statusTone, T, Tag, Trouble, useLive, useLoad, type Column } from '../ui';
import type { Evidence, Report, Violation } from '../types';

export interface Scope { tenant: string; sandbox?: string; agent?: string; session?: string }

// query returns the parameters that select records. An admin without a tenant sees
// those of all.
function query(scope: Scope | undefined, more: Record<string, string>): { path: string; tenant: string } {
  const p = new URLSearchParams(more);
  if (scope?.sandbox) p.set('sandbox', scope.sandbox);
  if (scope?.agent) p.set('agent', scope.agent);
  if (scope?.session) p.set('session', scope.session);
  if (!scope && session.me?.role === 'admin') p.set('all', 'true');
  return { path: '?' + p.toString(), tenant: scope?.tenant ?? '' };
}

export function loadEvidence(scope: Scope | undefined, signal: AbortSignal, more: Record<string, string> = {}): Promise<{ evidence: Evidence[]; more: boolean; damaged: number }> {
  const q = query(scope, { limit: '400', ...more });
  return get('/v1/evidence' + q.path, { tenant: q.tenant, signal });
}

export function loadViolations(scope: Scope | undefined, signal: AbortSignal): Promise<{ violations: Violation[]; more: boolean; damaged: number }> {
  const q = query(scope, { limit: '400' });
  return get('/v1/violations' + q.path, { tenant: q.tenant, signal });
}

function within(scope: Scope | undefined, r: { tenant: string; sandbox: string; agent: string; session: string }): boolean {
  return !scope || (r.tenant === scope.tenant && (!scope.sandbox || r.sandbox === scope.sandbox) && (!scope.agent || r.agent === scope.agent) && (!scope.session || r.session === scope.session));
}

const most = 800;

// joined puts what has come since the list was loaded before it.
export function joined<R extends { time: string }>(fresh: R[], loaded: R[], same: (r: R) => string): R[] {
  const seen = new Set<string>();
  const out: R[] = [];
  for (const r of [...fresh, ...loaded]) {
    const k = same(r);
    if (seen.has(k)) continue;
    seen.add(k);
    out.push(r);
    if (out.length >= most) break;
  }
  return out;
}

export const sameEvidence = (r: Evidence): string => `${r.time}|${r.tenant}|${r.type}|${r.command}|${r.data?.id ?? ''}|${r.data?.phase ?? ''}`;
export const sameViolation = (r: Violation): string => `${r.time}|${r.tenant}|${r.session}|${r.type}|${r.resource}|${r.count}`;

function Details({ of, onClose }: { of: unknown; onClose: () => void }): JSX.Element {
  const text = visible(JSON.stringify(of, null, 2).replace(/\n/g, '\u2424')).replace(/\u2424/g, '\n');
  return <Card title="Details" note={<button type="button" onClick={onClose}>Close</button>} wide><pre class="code" tabIndex={0}>{text}</pre></Card>;
}

const whose = <R extends { tenant: string; agent: string; session: string }>(): Column<R> => ({ name: 'Whose', cell: (r) => <span class="two"><T s={r.session} /><small class="soft">{visible(r.tenant ? `${r.tenant} · ${r.agent}` : r.agent)}</small></span> });

export function ViolationList({ scope }: { scope?: Scope }): JSX.Element {
  useLive();
  const loaded = useLoad((signal) => loadViolations(scope, signal), [scope?.tenant, scope?.sandbox]);
  const [picked, pick] = useState<Violation>();
  if (!loaded.data) return loaded.error ? <Trouble error={loaded.error} retry={loaded.reload} /> : <Loading />;
  const rows = joined(live.violations.filter((r) => within(scope, r)), loaded.data.violations, sameViolation);
  const columns: Column<Violation>[] = [
    { name: 'Time', narrow: true, width: '128px', slim: '62px', cell: (r) => <span class="num">{moment(r.time)}</span> },
    { name: 'Severity', width: '92px', cell: (r) => <Tag tone={severityTone(r.severity)}>{r.severity}</Tag> },
    { name: 'What', narrow: true, width: 'minmax(0, 2.4fr)', cell: (r) => <span class="two"><T s={`${r.operation} ${r.resource}`.trim() || r.message} /><small class="soft">{visible(`${r.program ? r.program + ': ' : ''}${r.message}${r.count > 1 ? ` · ${r.count} times` : ''}`)}</small></span> },
    ...(scope?.sandbox ? [] : [whose<Violation>()]),
    { name: 'Rule', cell: (r) => <span class="two"><T s={r.rule} mono /><small class="soft">{visible(r.type)}</small></span> },
  ];
  return <>
    <List label="Violations" rows={rows} columns={columns} keyOf={sameViolation} onPick={pick} empty={<Empty title="Nothing was stopped" />} />
    {picked && <Details of={picked} onClose={() => pick(undefined)} />}
  </>;
}

export function EgressList({ scope }: { scope?: Scope }): JSX.Element {
  useLive();
  const loaded = useLoad((signal) => loadEvidence(scope, signal, { type: 'egress' }), [scope?.tenant, scope?.sandbox]);
  const [picked, pick] = useState<Evidence>();
  if (!loaded.data) return loaded.error ? <Trouble error={loaded.error} retry={loaded.reload} /> : <Loading />;
  const rows = joined(live.evidence.filter((r) => r.type === 'egress' && within(scope, r)), loaded.data.evidence, sameEvidence);
  const columns: Column<Evidence>[] = [
    { name: 'Time', narrow: true, width: '128px', slim: '62px', cell: (r) => <span class="num">{moment(r.time)}</span> },
    { name: 'Verdict', narrow: true, width: '92px', slim: '64px', cell: (r) => <Tag tone={statusTone(r.data?.verdict)}>{visible(r.data?.verdict ?? '')}</Tag> },
    { name: 'Where to', narrow: true, width: 'minmax(0, 2fr)', cell: (r) => <span class="two"><T s={`${r.data?.method ? r.data.method + ' ' : ''}${r.data?.host ?? ''}${r.data?.port ? ':' + r.data.port : ''}${r.data?.path ?? ''}`} mono /><small class="soft">{visible(r.data?.message ?? '')}</small></span> },
    { name: 'Bytes', width: '150px', right: true, cell: (r) => (r.data?.phase === 'end' ? <span class="num">{bytes(r.data?.bytesOut ?? 0)} out, {bytes(r.data?.bytesIn ?? 0)} in</span> : <span class="soft">{visible(r.data?.phase ?? '')}</span>) },
    { name: 'Secrets', width: '120px', cell: (r) => (r.data?.secrets?.length ? <Tag tone="info">{visible(r.data.secrets.join(', '))}</Tag> : <span class="soft">–</span>) },
    ...(scope?.sandbox ? [] : [whose<Evidence>()]),
  ];
  return <>
    <List label="Egress" rows={rows} columns={columns} keyOf={sameEvidence} onPick={pick} empty={<Empty title="No connection was tried">Sandboxes have no network until a rule allows a host.</Empty>} />
    {picked && <Details of={picked} onClose={() => pick(undefined)} />}
  </>;
}

function Verify({ tenant }: { tenant?: string }): JSX.Element | null {
  const all = tenant === undefined && session.me?.role === 'admin';
  const report = useLoad<Report>((signal) => get('/v1/evidence/verify' + (all ? '?all=true' : ''), { tenant: tenant ?? '', signal }), [tenant]);
  if (report.loading) return <Card title="Chains"><Loading /></Card>;
  if (report.error) return <Card title="Chains"><Trouble error={report.error} retry={report.reload} /></Card>;
  const r = report.data!;
  return (
    <Card title="Chains" note={<button type="button" onClick={report.reload}>Verify again</button>} wide>
      <p class={r.ok ? 'state good' : 'state bad'}>{r.chains.length === 0 ? 'There is no record yet.' : r.ok ? 'Every record is as it was written.' : 'Some records are not as they were written.'}</p>
      <div class="chains">
        {r.chains.map((c) => (
          <div class="chain" key={c.folder}>
            <div class="cardhead"><h3>{c.tenant ? <T s={c.tenant} /> : 'no tenant'}</h3><Tag tone={c.ok ? 'good' : 'bad'}>{c.ok ? 'whole' : 'damaged'}</Tag></div>
            <dl class="facts">
              <div><dt>Records</dt><dd>{c.records}</dd></div><div><dt>Checkpoints</dt><dd>{c.checkpoints}</dd></div><div><dt>Not signed yet</dt><dd>{c.unsigned}</dd></div>
              <div><dt>Files</dt><dd>{c.files}{c.dropped > 0 ? `, ${c.dropped} rotated away` : ''}</dd></div><div><dt>Last line</dt><dd class="mono">{c.last.seq} {visible(c.last.hash.slice(0, 12))}</dd></div>
            </dl>
            {c.damage.map((d, i) => <p key={i} class="soft mono">{visible(`${d.kind} ${d.file}${d.line ? ':' + d.line : ''} ${d.detail}`)}</p>)}
          </div>
        ))}
      </div>
    </Card>
  );
}

export function operationText(r: Evidence): string {
  const d = r.data ?? {};
  if (r.type === 'begin') {
    const q = d.request ?? {};
    return `${d.kind ?? ''} ${q.program ?? q.path ?? (q.host ? `${q.method ?? ''} ${q.host}` : '')}${q.args ? ` (${q.args} arguments)` : ''}`.trim() || String(d.capability ?? '');
  }
  if (r.type === 'end') {
    const effects = (d.sideEffects ?? []).map((e: any) => `${e.kind ?? ''} ${e.program ?? e.path ?? e.host ?? ''}${e.exitCode !== undefined ? ` exit ${e.exitCode}` : ''}`.trim());
    return [d.detail, ...effects].filter(Boolean).join('; ') || String(d.status ?? '');
  }
  if (r.type === 'egress') return `${d.method ? d.method + ' ' : ''}${d.host ?? ''}${d.port ? ':' + d.port : ''}${d.path ?? ''}`;
  return r.type;
}

export function EvidenceList({ scope }: { scope?: Scope }): JSX.Element {
  useLive();
  const loaded = useLoad((signal) => loadEvidence(scope, signal), [scope?.tenant, scope?.sandbox]);
  const [picked, pick] = useState<Evidence>();
  if (!loaded.data) return loaded.error ? <Trouble error={loaded.error} retry={loaded.reload} /> : <Loading />;
  const rows = joined(live.evidence.filter((r) => within(scope, r)), loaded.data.evidence, sameEvidence);
  const columns: Column<Evidence>[] = [
    { name: 'Time', narrow: true, width: '128px', slim: '62px', cell: (r) => <span class="num">{moment(r.time)}</span> },
    { name: 'Type', width: '84px', cell: (r) => <Tag>{r.type}</Tag> },
    { name: 'What', narrow: true, width: 'minmax(0, 2.4fr)', cell: (r) => <T s={operationText(r)} mono /> },
    { name: 'Outcome', width: '96px', cell: (r) => { const s = r.data?.status ?? r.data?.verdict; return s ? <Tag tone={statusTone(s)}>{visible(s)}</Tag> : <span class="soft">–</span>; } },
    ...(scope?.sandbox ? [] : [whose<Evidence>()]),
  ];
  return <>
    {loaded.data.damaged > 0 && <p class="banner bad">{loaded.data.damaged} places of the records cannot be read.</p>}
    <List label="Evidence" rows={rows} columns={columns} keyOf={sameEvidence} onPick={pick} empty={<Empty title="Nothing is on record">Operations under grants are, and with evidence.commands every command.</Empty>} />
    {picked && <Details of={picked} onClose={() => pick(undefined)} />}
  </>;
}

export function EvidenceWith({ scope, children }: { scope?: Scope; children?: ComponentChildren }): JSX.Element {
  return <>{reaches('tenant') && !session.me?.agent && <Verify tenant={scope?.tenant} />}<Card title="Records" wide>{children}<EvidenceList scope={scope} /></Card></>;
}

export function Violations(): JSX.Element {
  return <Page title="Violations" lead="What was tried and stopped, the newest first."><Card wide><ViolationList /></Card></Page>;
}

export function Egress(): JSX.Element {
  return <Page title="Egress" lead="Connections that sandboxes have tried, and what was decided."><Card wide><EgressList /></Card></Page>;
}

export function EvidenceView(): JSX.Element {
  return <Page title="Evidence" lead="What was done, in signed chains."><EvidenceWith /></Page>;
}
