import type { JSX } from 'preact';
import { get } from '../api';
import { bytes, moment, number } from '../format';
import { Card, Empty, Loading, Meter, Page, T, Tag, Trouble, useLoad } from '../ui';
import type { Tenant } from '../types';

const kinds: [string, string, (n: number) => string][] = [
  ['calls', 'Calls', number], ['bytesIn', 'Bytes out of sandboxes', bytes], ['bytesOut', 'Bytes into sandboxes', bytes], ['files', 'Files', number],
  ['cpuMs', 'Processor time', (n) => `${(n / 1000).toFixed(1)} s`], ['wallMs', 'Time', (n) => `${(n / 1000).toFixed(1)} s`], ['gpuMs', 'GPU time', (n) => `${(n / 1000).toFixed(1)} s`],
];

export function Tenants(): JSX.Element {
  const list = useLoad<{ items: Tenant[] }>((signal, again) => get('/v1/tenants', { signal, background: again }), [], 5000);
  return (
    <Page title="Tenants" lead="What each may hold, and holds now." >
      {!list.data && (list.error ? <Trouble error={list.error} retry={list.reload} /> : <Loading />)}
      {list.data?.items.length === 0 && <Empty title="There is no tenant" />}
      <div class="grid tenants">
        {list.data?.items.map((t) => (
          <Card key={t.id} title={t.id ? <T s={t.id} /> : 'no tenant'} note={<>{t.refused && <Tag tone="bad">refused</Tag>}{t.listed && <Tag>listed</Tag>}{t.weight > 1 && <Tag>weight {t.weight}</Tag>}</>}>
            <Meter label="Sandboxes" used={t.held.sandboxes} most={t.limits.sandboxes} format={number} />
            <Meter label="Commands that run" used={t.held.commands} most={t.limits.commands} format={number} />
            <Meter label="Memory" used={t.held.memory} most={t.limits.memory} format={bytes} />
            <Meter label="Processors" used={t.held.nanoCpus / 1e9} most={t.limits.nanoCpus < 0 ? -1 : t.limits.nanoCpus / 1e9} format={(n) => String(Math.round(n * 100) / 100)} />
            <Meter label="Disk" used={t.held.disk} most={t.limits.disk} format={bytes} />
            <p class="soft">{t.limits.requestsPerSecond < 0 ? 'Requests are not bounded.' : `${t.limits.requestsPerSecond} requests a second, ${t.limits.requestBurst || t.limits.requestsPerSecond} at once.`}</p>
            {t.budgets.length > 0 && <h3>Budgets of tokens</h3>}
            {t.budgets.map((b) => (
              <div class="budget" key={b.token}>
                <p><span class="mono">{b.token}</span> <Tag>{b.role}</Tag> {b.note && <T s={b.note} />}{b.session && <span class="soft"> session <T s={b.session} /></span>}{b.expires && <span class="soft"> until {moment(b.expires)}</span>}</p>
                {kinds.filter(([k]) => (b.bound[k] ?? -1) >= 0).map(([k, name, f]) => <Meter key={k} label={name} used={b.used[k] ?? 0} most={b.bound[k]} format={f} />)}
              </div>
            ))}
          </Card>
        ))}
      </div>
    </Page>
  );
}
