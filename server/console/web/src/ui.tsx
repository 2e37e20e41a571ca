import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState, useCallback } from 'preact/hooks';
import uPlot from 'uplot';
import { Problem } from './api';
import { live } from './state';
import { bytes, visible } from './format';

// powers are the distances of lines in charts of bytes.
const powers = Array.from({ length: 48 }, (_, i) => 2 ** i);


// useLive draws a view anew when what goes on has changed.
export function useLive(): void {
  const [, set] = useState(0);
  useEffect(() => live.subscribe(() => set((n) => n + 1)), []);
}

export interface Loaded<T> { data?: T; error?: Problem; loading: boolean; reload: () => void; set: (v: T) => void }

// useLoad loads something, anew when one of deps changes, and every so many
// milliseconds where every is given.
export function useLoad<T>(load: (signal: AbortSignal, again: boolean) => Promise<T>, deps: unknown[], every = 0): Loaded<T> {
  const [state, setState] = useState<{ data?: T; error?: Problem; loading: boolean }>({ loading: true });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const run = async (again: boolean) => {
      try {
        const data = await load(stop.signal, again);
        if (!stop.signal.aborted) setState({ data, loading: false });
      } catch (e) {
        if (stop.signal.aborted) return;
        const error = e instanceof Problem ? e : new Problem(0, '', String(e));
        setState((s) => ({ data: s.data, error, loading: false }));
      }
      if (every > 0 && !stop.signal.aborted) timer = setTimeout(() => void run(true), document.hidden ? every * 5 : every);
    };
    void run(turn > 0);
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [...deps, turn]);
  const reload = useCallback(() => setTurn((n) => n + 1), []);
  const set = useCallback((data: T) => setState({ data, loading: false }), []);
  return { ...state, reload, set };
}

// T shows a text that may come from inside of a sandbox.
export function T({ s, mono }: { s: string | undefined; mono?: boolean }): JSX.Element {
  const text = visible(s);
  return <span class={mono ? 'mono' : undefined} dir="auto" title={text.length > 24 ? text : undefined}>{text}</span>;
}

export function Trouble({ error, retry }: { error?: Problem; retry?: () => void }): JSX.Element | null {
  if (!error) return null;
  return (
    <div class="trouble" role="alert">
      <p><strong>{visible(error.message)}</strong></p>
      {error.hint && <p class="soft">{visible(error.hint)}</p>}
      {retry && <button type="button" onClick={retry}>Try again</button>}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return <div class="empty"><p>{title}</p>{children && <div class="soft">{children}</div>}</div>;
}

export function Loading(): JSX.Element {
  return <div class="empty soft" role="status">Loading…</div>;
}

export function Tag({ tone, children }: { tone?: string; children: ComponentChildren }): JSX.Element {
  return <span class={'tag ' + (tone ?? '')}>{children}</span>;
}

export function statusTone(status: string): string {
  return { running: 'good', paused: 'info', stopped: '', missing: 'warn', orphan: 'warn', failed: 'bad', ended: '', ok: 'good', allow: 'good', denied: 'bad', deny: 'bad', error: 'bad' }[status] ?? '';
}

export function severityTone(severity: string): string {
  return { critical: 'bad', high: 'bad', medium: 'warn', low: '' }[severity] ?? '';
}

export function Page({ title, lead, actions, children }: { title: ComponentChildren; lead?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }): JSX.Element {
  return (
    <>
      <header class="page">
        <div class="heads"><h1 tabIndex={-1}>{title}</h1>{lead && <p class="soft">{lead}</p>}</div>
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </>
  );
}

export function Card({ title, note, children, wide }: { title?: ComponentChildren; note?: ComponentChildren; children: ComponentChildren; wide?: boolean }): JSX.Element {
  return (
    <section class={wide ? 'card wide' : 'card'}>
      {title && <div class="cardhead"><h2>{title}</h2>{note && <span class="soft">{note}</span>}</div>}
      {children}
    </section>
  );
}

export interface Column<R> { name: string; cell: (row: R) => ComponentChildren; width?: string; right?: boolean; narrow?: boolean; slim?: string }

// rowHeight is that of each row of a list, in CSS pixels: lists of thousands of rows
// have elements only for those that are seen.
const rowHeight = 44;

// List is a table with a bounded number of elements.
export function List<R>({ label, rows, columns, keyOf, href, onPick, empty, height }: {
  label: string; rows: R[]; columns: Column<R>[]; keyOf: (r: R) => string; href?: (r: R) => string; onPick?: (r: R) => void; empty: ComponentChildren; height?: number;
}): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [from, setFrom] = useState(0);
  const most = height ?? 560;
  const shown = Math.ceil(most / rowHeight) + 12;
  const onScroll = () => {
    const at = Math.max(0, Math.floor((box.current?.scrollTop ?? 0) / rowHeight) - 6);
    setFrom((f) => (Math.abs(f - at) > 3 || at === 0 ? at : f));
  };
  if (rows.length === 0) return <>{empty}</>;
  const begin = Math.min(from, Math.max(0, rows.length - shown));
  const part = rows.slice(begin, begin + shown);
  const fill = 'minmax(0, 1fr)';
  const template = { '--wide': columns.map((c) => c.width ?? fill).join(' '), '--narrow': columns.filter((c) => c.narrow).map((c) => c.slim ?? c.width ?? fill).join(' ') } as JSX.CSSProperties;
  return (
    <div class="list" role="table" aria-label={label} aria-rowcount={rows.length + 1}>
      <div class="row head" role="row" style={template}>
        {columns.map((c) => <div role="columnheader" class={(c.right ? 'right ' : '') + (c.narrow ? '' : 'roomy')}>{c.name}</div>)}
      </div>
      <div class="rows" role="rowgroup" ref={box} onScroll={onScroll} style={{ maxHeight: `${most}px` }} tabIndex={0} aria-label={label + ', rows'}>
        <div role="presentation" style={{ height: `${begin * rowHeight}px` }} />
        {part.map((r, i) => {
          const cells = columns.map((c, n) => (
            <div role="cell" class={(c.right ? 'right ' : '') + (c.narrow ? '' : 'roomy')}>
              {n === 0 && href ? <a href={href(r)}>{c.cell(r)}</a> : n === 0 && onPick ? <button type="button" class="link" onClick={() => onPick(r)}>{c.cell(r)}</button> : c.cell(r)}
            </div>
          ));
          return <div class="row" role="row" key={keyOf(r)} aria-rowindex={begin + i + 2} style={template}>{cells}</div>;
        })}
        <div role="presentation" style={{ height: `${Math.max(0, rows.length - begin - part.length) * rowHeight}px` }} />
      </div>
    </div>
  );
}

// Spark is a small line of values.
export function Spark({ values, label }: { values: number[]; label: string }): JSX.Element {
  const w = 84, h = 22;
  const most = Math.max(0.02, ...values);
  const step = w / Math.max(1, values.length - 1);
  const points = values.map((v, i) => `${(i * step).toFixed(1)},${(h - 2 - (v / most) * (h - 4)).toFixed(1)}`).join(' ');
  return <svg class="spark" viewBox={`0 0 ${w} ${h}`} width={w} height={h} role="img" aria-label={label}><polyline points={points} /></svg>;
}

// Chart draws series over time. data has seconds first.
export function Chart({ data, label, format, floor }: { data: number[][]; label: string; format: (v: number) => string; floor?: number }): JSX.Element {
  const at = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const latest = data[1]?.[data[1].length - 1];
  useLayoutEffect(() => {
    const el = at.current!;
    const make = () => {
      plot.current?.destroy();
      const css = getComputedStyle(document.documentElement);
      const of = (name: string) => css.getPropertyValue(name).trim();
      plot.current = new uPlot({
        width: Math.max(160, el.clientWidth), height: 150, legend: { show: false }, padding: [8, 4, 0, 0],
        cursor: { y: false, points: { show: false } },
        scales: { x: { time: true }, y: { range: (_u, _min, max) => [0, Math.max(floor ?? 0.01, max * 1.15)] } },
        axes: [
          { stroke: of('--soft'), grid: { show: false }, ticks: { show: false }, size: 26, font: '11px system-ui', space: 80, values: (_u, vs) => vs.map((v) => new Date(v * 1000).toLocaleTimeString(undefined, { hour12: false })) },
          { stroke: of('--soft'), grid: { stroke: of('--line'), width: 1 }, ticks: { show: false }, size: 64, font: '11px system-ui', space: 36, incrs: format === bytes ? powers : undefined, values: (_u, vs) => vs.map((v) => format(v)) },
        ],
        series: [{}, { stroke: of('--accent'), width: 1.75, fill: of('--accent-wash'), points: { show: false } }],
      }, data as uPlot.AlignedData, el);
    };
    make();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: Math.max(160, el.clientWidth), height: 150 }));
    resized.observe(el);
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    scheme.addEventListener('change', make);
    return () => {
      resized.disconnect();
      scheme.removeEventListener('change', make);
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, []);
  useEffect(() => {
    plot.current?.setData(data as uPlot.AlignedData);
  });
  return (
    <figure class="chart">
      <figcaption><span>{label}</span><strong>{latest === undefined ? '–' : format(latest)}</strong></figcaption>
      <div class="plot" ref={at} role="img" aria-label={`${label}, now ${latest === undefined ? 'not known' : format(latest)}`} data-points={data[0]?.length ?? 0} />
    </figure>
  );
}

export function Meter({ label, used, most, format }: { label: string; used: number; most: number; format: (n: number) => string }): JSX.Element {
  const part = most > 0 ? Math.min(1, used / most) : 0;
  return (
    <div class="meter">
      <div class="meterhead"><span>{label}</span><span class="soft">{format(used)}{most >= 0 ? ` of ${format(most)}` : ''}</span></div>
      {most >= 0 ? <progress max={1} value={part} class={part >= 0.9 ? 'high' : ''} aria-label={label} /> : <div class="unbound soft">no bound</div>}
    </div>
  );
}

// Confirm asks before something is done that cannot be taken back.
export function Confirm({ title, children, action, danger, onDone, onClose }: { title: string; children?: ComponentChildren; action: string; danger?: boolean; onDone: () => void; onClose: () => void }): JSX.Element {
  const ref = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    ref.current!.showModal();
    return () => ref.current?.close();
  }, []);
  return (
    <dialog ref={ref} aria-label={title} onCancel={(e) => { e.preventDefault(); onClose(); }}>
      <h2>{title}</h2>
      <div>{children}</div>
      <div class="actions end">
        <button type="button" onClick={onClose}>Cancel</button>
        <button type="button" class={danger ? 'danger' : 'primary'} onClick={() => { onClose(); onDone(); }}>{action}</button>
      </div>
    </dialog>
  );
}

export function Tabs({ items, at, href }: { items: [string, string][]; at: string; href: (id: string) => string }): JSX.Element {
  return (
    <nav class="tabs" aria-label="Parts of the sandbox">
      {items.map(([id, name]) => <a key={id} href={href(id)} aria-current={id === at ? 'page' : undefined}>{name}</a>)}
    </nav>
  );
}
