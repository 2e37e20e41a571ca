import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { post } from '../api';
import { attempt, canWrite, live, reaches } from '../state';
import { moment, span, visible } from '../format';
import { Card, Confirm, Empty, Page, T, Tag, useLive } from '../ui';
import type { Approval } from '../types';

export const words: Record<string, string> = { allow_once: 'Allowed once', allow_session: 'Allowed for the session', allow_permanent: 'Allowed permanently', deny: 'Denied' };

export function answered(id: string, permission: string): void {
  const h = live.history.find((x) => x.approval.id === id);
  if (h) h.answer = words[permission] ?? permission;
}

function Question({ q }: { q: Approval }): JSX.Element {
  const [asking, setAsking] = useState(false);
  const [busy, setBusy] = useState(false);
  const [, tick] = useState(0);
  useEffect(() => { const t = setInterval(() => tick((n) => n + 1), 1000); return () => clearInterval(t); }, []);
  const answer = (permission: string) => {
    setBusy(true);
    void attempt(() => post(`/v1/approvals/${encodeURIComponent(q.id)}`, { permission }, { tenant: q.tenant }), words[permission]).then((ok) => { if (ok) answered(q.id, permission); else setBusy(false); });
  };
  const may = canWrite() && reaches('tenant');
  const paths = q.kind !== 'path' || reaches('admin');
  const left = Math.max(0, Math.round((Date.parse(q.expires) - Date.now()) / 1000));
  return (
    <section class="card question" aria-label={`Question about ${visible(q.resource)}`}>
      <div class="cardhead"><h2><Tag tone="warn">{visible(q.kind)}</Tag> <span>{visible(q.operation)}</span> <T s={q.resource} mono /></h2><span class="soft num">{span(left)} left</span></div>
      <dl class="facts">
        <div><dt>Session</dt><dd><T s={q.session} /></dd></div><div><dt>Agent</dt><dd><T s={q.agent} /></dd></div>
        {q.tenant && <div><dt>Tenant</dt><dd><T s={q.tenant} /></dd></div>}
        {q.sandbox && <div><dt>Sandbox</dt><dd><T s={q.sandbox} mono /></dd></div>}
      </dl>
      {q.command.length > 0 && <pre class="code" tabIndex={0} aria-label="Command">{visible(q.command.join(' '))}</pre>}
      {q.reason && <p class="soft">{visible(q.reason)}</p>}
      {may ? (
        <div class="actions">
          <button type="button" class="primary" disabled={busy || !paths} onClick={() => answer('allow_once')}>Allow once</button>
          <button type="button" disabled={busy || !paths} onClick={() => answer('allow_session')}>Allow for the session</button>
          {reaches('admin') && <button type="button" disabled={busy} onClick={() => setAsking(true)}>Allow permanently</button>}
          <button type="button" class="danger" disabled={busy} onClick={() => answer('deny')}>Deny</button>
        </div>
      ) : <p class="soft">This login may not answer.</p>}
      {asking && <Confirm title="Allow permanently?" action="Allow permanently" onClose={() => setAsking(false)} onDone={() => answer('allow_permanent')}>
        <p>This goes into the settings file, and holds for every session that the rule fits.</p><p class="mono">{visible(q.operation)} {visible(q.resource)}</p>
      </Confirm>}
    </section>
  );
}

export function Approvals(): JSX.Element {
  useLive();
  const past = live.history.filter((h) => h.ended);
  return (
    <Page title="Approvals" lead="Commands that wait for a permission. The first answer counts; a question without an answer is denied.">
      {live.approvals.length === 0 ? <Card><Empty title="No question waits">A command that runs with --ask, or "ask": true, waits here.</Empty></Card> : live.approvals.map((q) => <Question key={q.id} q={q} />)}
      {past.length > 0 && <Card title="Since this page opened" wide><ul class="plain-list">{past.map((h) => <li key={h.approval.id}><span class="num soft">{moment(h.time)}</span> <T s={`${h.approval.operation} ${h.approval.resource}`} mono /> <Tag tone={h.answer === 'Denied' || !h.answer ? '' : 'good'}>{h.answer ?? 'answered elsewhere, or expired'}</Tag></li>)}</ul></Card>}
    </Page>
  );
}
