import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { post } from '../api';
import { Card, Empty, List, Loading, Page, T, Tag, Trouble, useLoad } from '../ui';
import type { Setting } from '../types';

interface Explanation { settings: (Setting & { note?: string })[]; dangerous: string[]; problems: string[]; provider: string; providerReason: string }

export function Settings(): JSX.Element {
  const [who, setWho] = useState({ tenant: '', agent: 'main', session: 'default' });
  const [asked, ask] = useState(who);
  const [filter, setFilter] = useState('');
  const [set, onlySet] = useState(false);
  const got = useLoad<Explanation>((signal) => post('/v1/explain', {}, { tenant: asked.tenant, signal, headers: { 'Sandbox-Agent': asked.agent || 'main', 'Sandbox-Session': asked.session || 'default' } }), [asked]);
  const rows = useMemo(() => (got.data?.settings ?? []).filter((s) => (!set || s.layer !== 'default') && `${s.path} ${s.value} ${s.layer}`.toLowerCase().includes(filter.toLowerCase())), [got.data, filter, set]);
  return (
    <Page title="Settings" lead="Every value that is in force for a session, and the layer that it comes from.">
      <Card wide>
        <form class="tools" onSubmit={(e) => { e.preventDefault(); ask({ ...who }); }}>
          <label>Tenant<input value={who.tenant} onInput={(e) => setWho({ ...who, tenant: e.currentTarget.value })} placeholder="none" maxLength={64} spellcheck={false} /></label>
          <label>Agent<input value={who.agent} onInput={(e) => setWho({ ...who, agent: e.currentTarget.value })} maxLength={64} spellcheck={false} /></label>
          <label>Session<input value={who.session} onInput={(e) => setWho({ ...who, session: e.currentTarget.value })} maxLength={256} spellcheck={false} /></label>
          <button type="submit">Show</button>
        </form>
        <div class="tools">
          <label>Filter<input type="search" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} placeholder="network, memory, …" spellcheck={false} /></label>
          <label class="check"><input type="checkbox" checked={set} onChange={(e) => onlySet(e.currentTarget.checked)} />only what is set</label>
        </div>
        {got.error && <Trouble error={got.error} retry={got.reload} />}
        {(got.data?.dangerous?.length ?? 0) > 0 && <p class="banner bad">In force: {got.data!.dangerous.map((d) => <Tag tone="bad" key={d}>{d}</Tag>)}</p>}
        {(got.data?.problems ?? []).map((p) => <p class="banner warn" key={p}><T s={p} /></p>)}
        {got.loading ? <Loading /> : got.data && <List label="Settings" rows={rows} keyOf={(s) => s.path} empty={<Empty title="No setting matches" />} columns={[
          { name: 'Setting', narrow: true, width: 'minmax(0, 1.4fr)', cell: (s) => <T s={s.path} mono /> },
          { name: 'Value', narrow: true, width: 'minmax(0, 1.4fr)', cell: (s) => <T s={s.value} mono /> },
          { name: 'Layer', width: 'minmax(0, 1fr)', cell: (s) => <Tag tone={s.layer === 'default' ? '' : 'info'}><T s={s.layer} /></Tag> },
        ]} />}
      </Card>
    </Page>
  );
}
