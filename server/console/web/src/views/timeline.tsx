import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { live, session } from '../state';
import { bytes, moment, visible } from '../format';
import { Card, Empty, List, Loading, Page, severityTone, statusTone, T, Tag, Trouble, useLive, useLoad } from '../ui';
import type { Approval, Evidence, Violation } from '../types';
import { words as answers } from './approvals';
import { joined, loadEvidence, loadViolations, operationText, sameEvidence, sameViolation, type Scope } from './records';

interface Entry { time: string; kind: 'command' | 'file' | 'egress' | 'secret' | 'approval' | 'violation' | 'browser' | 'operation'; text: string; outcome: string; tone: string; more: string; id: string }

function kindOf(operation: string): Entry['kind'] {
  if (operation === 'Command' || operation === 'ProcExec') return 'command';
  if (operation.startsWith('Fs') || operation === 'TmpAlloc') return 'file';
  if (operation.startsWith('Browser')) return 'browser';
  if (operation.startsWith('Net')) return 'egress';
  return 'operation';
}

// An Answer is one to a question, as the evidence has it.
interface Answer { time: string; command: boolean; what: string; answer: string; id: string }

// answerWithin is how long a question waits at most, and some seconds, in milliseconds.
const answerWithin = 310_000;

const answerTone = (answer: string | undefined): string => (!answer || answer === answers.deny ? '' : 'good');

function sameProgram(program: string, q: Approval): boolean {
  return program === '' || q.command[0]?.split('/').pop() === program;
}

// recorded returns the answers that the records have: those about commands are in the
// ends of commands, and those about hosts are the rules of connections. A permission
// for a session is the rule of each connection after it too, and counts once.
function recorded(evidence: Evidence[]): Answer[] {
  const out: Answer[] = [];
  const programs = new Map<string, string>();
  const oldest = [...evidence].reverse();
  for (const r of evidence) if (r.type === 'begin') programs.set(r.command, String(r.data?.request?.program ?? ''));
  const seen = new Set<string>();
  for (const r of oldest) {
    const d = r.data ?? {};
    if (r.type === 'end' && d.approval) out.push({ time: r.time, command: true, what: programs.get(r.command) ?? '', answer: answers[d.approval] ?? String(d.approval), id: 'a' + sameEvidence(r) });
    if (r.type !== 'egress') continue;
    const what = `${d.host ?? ''}${d.port ? ':' + d.port : ''}`;
    const answer = d.rule === 'permitted to the session' ? answers.allow_session : d.rule === 'permitted to the command' ? answers.allow_once : String(d.message ?? '').includes('permission was asked for and denied') ? answers.deny : '';
    const once = `${answer}|${what}|${answer === answers.allow_session ? '' : r.command}`;
    if (!answer || seen.has(once)) continue;
    seen.add(once);
    out.push({ time: r.time, command: false, what, answer, id: 'a' + sameEvidence(r) });
  }
  return out;
}

// entries joins records of every kind into one list, the newest first. The begin and
// the end of an operation are one entry.
function entries(evidence: Evidence[], violations: Violation[], scope: Scope): Entry[] {
  const out: Entry[] = [];
  const ends = new Map<string, Evidence>();
  for (const r of evidence) if (r.type === 'end') ends.set(r.command, r);
  for (const r of evidence) {
    const d = r.data ?? {};
    if (r.type === 'begin') {
      const end = ends.get(r.command);
      ends.delete(r.command);
      const took = end?.data?.durationNs ? `${(end.data.durationNs / 1e6).toFixed(0)} ms` : '';
      out.push({ time: r.time, kind: kindOf(String(d.kind)), text: operationText(r), outcome: end ? String(end.data?.status ?? '') : 'open', tone: statusTone(end?.data?.status ?? ''), more: [end ? operationText(end) : '', took].filter(Boolean).join(' · '), id: sameEvidence(r) });
    } else if (r.type === 'egress') {
      out.push({ time: r.time, kind: 'egress', text: operationText(r), outcome: String(d.verdict ?? ''), tone: statusTone(d.verdict), more: d.phase === 'end' ? `${bytes(d.bytesOut ?? 0)} out, ${bytes(d.bytesIn ?? 0)} in${d.error ? ' · ' + d.error : ''}` : String(d.message ?? ''), id: sameEvidence(r) });
      for (const s of d.secrets ?? []) out.push({ time: r.time, kind: 'secret', text: String(s), outcome: 'used', tone: 'info', more: `for ${d.host ?? ''}`, id: sameEvidence(r) + s });
    }
  }
  for (const r of ends.values()) out.push({ time: r.time, kind: 'operation', text: operationText(r), outcome: String(r.data?.status ?? ''), tone: statusTone(r.data?.status ?? ''), more: 'its begin is not on record any more', id: sameEvidence(r) });
  for (const r of violations) out.push({ time: r.time, kind: 'violation', text: r.message || r.resource, outcome: r.severity, tone: severityTone(r.severity), more: [r.rule, r.command].filter(Boolean).join(' · '), id: sameViolation(r) });
  const past = recorded(evidence);
  for (const h of live.history) {
    const q = h.approval;
    if (q.tenant !== scope.tenant || (scope.session && q.session !== scope.session) || (scope.sandbox && q.sandbox && q.sandbox !== scope.sandbox)) continue;
    // What was seen here has the whole question, and the record who knows the answer.
    const at = past.findIndex((p) => p.command === (q.kind === 'command') && (p.command ? sameProgram(p.what, q) : p.what === q.resource) && Math.abs(Date.parse(p.time) - Date.parse(h.time)) <= answerWithin);
    const answer = at >= 0 ? past.splice(at, 1)[0].answer : h.answer;
    out.push({ time: h.time, kind: 'approval', text: `${q.operation} ${q.resource}`, outcome: h.ended ? (answer ?? 'answered elsewhere, or expired') : 'waits', tone: h.ended ? answerTone(answer) : 'warn', more: q.command.join(' '), id: q.id });
  }
  for (const p of past) out.push({ time: p.time, kind: 'approval', text: p.command ? `execute ${p.what}` : `connect ${p.what}`, outcome: p.answer, tone: answerTone(p.answer), more: 'as the evidence has it', id: p.id });
  return out.sort((a, b) => (a.time < b.time ? 1 : a.time > b.time ? -1 : 0)).slice(0, 1500);
}

export function TimelineList({ scope }: { scope: Scope }): JSX.Element {
  useLive();
  const [kind, setKind] = useState('');
  const key = `${scope.tenant}|${scope.agent}|${scope.session}|${scope.sandbox}`;
  const got = useLoad(async (signal) => {
    const [e, v] = await Promise.all([loadEvidence(scope, signal), loadViolations(scope, signal)]);
    return { evidence: e.evidence, violations: v.violations };
  }, [key]);
  const mine = (r: { tenant: string; session: string; agent: string; sandbox: string }) => r.tenant === scope.tenant && (!scope.session || r.session === scope.session) && (!scope.agent || r.agent === scope.agent) && (!scope.sandbox || r.sandbox === scope.sandbox);
  const all = useMemo(() => (got.data ? entries(joined(live.evidence.filter(mine), got.data.evidence, sameEvidence), joined(live.violations.filter(mine), got.data.violations, sameViolation), scope) : []), [got.data, live.evidence, live.violations, live.approvals, key]);
  if (!got.data) return got.error ? <Trouble error={got.error} retry={got.reload} /> : <Loading />;
  const rows = kind ? all.filter((e) => e.kind === kind) : all;
  return <>
    <div class="tools"><label>Kind<select value={kind} onChange={(e) => setKind(e.currentTarget.value)}><option value="">everything</option>{['command', 'file', 'egress', 'secret', 'approval', 'violation', 'browser'].map((k) => <option key={k} value={k}>{k}</option>)}</select></label></div>
    <List label="Timeline" rows={rows} keyOf={(e) => e.id} empty={<Empty title="Nothing is on record">With the setting evidence.commands every command and file operation is.</Empty>} columns={[
      { name: 'Time', narrow: true, width: '128px', slim: '62px', cell: (e) => <span class="num">{moment(e.time)}</span> },
      { name: 'Kind', narrow: true, width: '96px', slim: '86px', cell: (e) => <span class={'kind ' + e.kind}>{e.kind}</span> },
      { name: 'What', narrow: true, width: 'minmax(0, 2fr)', cell: (e) => <span class="two"><T s={e.text} mono /><small class="soft">{visible(e.more)}</small></span> },
      { name: 'Outcome', width: '130px', cell: (e) => <Tag tone={e.tone}>{visible(e.outcome)}</Tag> },
    ]} />
  </>;
}

export function Timeline(): JSX.Element {
  useLive();
  const me = session.me;
  const first = live.sorted[0];
  const [chosen, choose] = useState('');
  const sessions = useMemo(() => {
    const seen = new Map<string, Scope>();
    for (const s of live.sorted) if (s.session && seen.size < 1000) seen.set(`${s.tenant}\u0000${s.agent}\u0000${s.session}`, { tenant: s.tenant, agent: s.agent, session: s.session });
    return seen;
  }, [live.sorted]);
  const scope = sessions.get(chosen) ?? (first ? sessions.values().next().value : undefined) ?? { tenant: me?.tenant ?? '', agent: me?.agent, session: me?.session };
  return (
    <Page title="Timeline" lead="What a session has done: commands, files, connections, secrets, approvals and violations, in one list.">
      <Card wide>
        <div class="tools"><label>Session<select value={`${scope.tenant}\u0000${scope.agent}\u0000${scope.session}`} onChange={(e) => choose(e.currentTarget.value)}>
          {[...sessions].map(([k, s]) => <option key={k} value={k}>{visible(`${s.session}${s.tenant ? ` · ${s.tenant}` : ''}${s.agent && s.agent !== 'main' ? ` · ${s.agent}` : ''}`)}</option>)}
        </select></label></div>
        <TimelineList scope={scope} />
      </Card>
    </Page>
  );
}
