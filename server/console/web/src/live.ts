// What goes on, as the daemon's stream of events has it. Everything that is kept has a
// bound, so that the page stays small however long it is open.

import { follow, Problem } from './api';
import type { Approval, Evidence, Figure, Named, Sandbox, Total, Violation } from './types';

export const keptPoints = 600;
const keptSpark = 40;
const keptRecords = 400;

export interface Gauge { figure: Figure; at: number; cpu: number; spark: number[] }

export const keyOf = (n: Named): string => `${n.tenant}\u0000${n.provider}\u0000${n.name}`;

export class Live {
  sandboxes = new Map<string, Sandbox>();
  gauges = new Map<string, Gauge>();
  sorted: Sandbox[] = [];
  total: Total | undefined;
  // Of the totals: seconds, processors, bytes of memory, sandboxes that run, bytes a second of disk and network.
  series: number[][] = [[], [], [], [], [], []];
  approvals: Approval[] = [];
  violations: Violation[] = [];
  evidence: Evidence[] = [];
  // Questions that were open while the page was, the newest first.
  history: { time: string; approval: Approval; answer?: string; ended?: boolean }[] = [];
  dropped = 0;
  connected = false;
  ready = false;
  problem = '';

  private listeners = new Set<() => void>();
  private due = false;
  private stop: AbortController | undefined;
  private stale = true;

  subscribe(fn: () => void): () => void {
    this.listeners.add(fn);
    return () => this.listeners.delete(fn);
  }

  // changed has views drawn anew, at most five times a second.
  private changed(): void {
    if (this.due) return;
    this.due = true;
    setTimeout(() => {
      this.due = false;
      if (this.stale) {
        this.sorted = [...this.sandboxes.values()].sort((a, b) => (a.tenant < b.tenant ? -1 : a.tenant > b.tenant ? 1 : a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
        this.stale = false;
      }
      for (const fn of this.listeners) fn();
    }, 200);
  }

  start(all: boolean): void {
    this.end();
    const stop = new AbortController();
    this.stop = stop;
    void this.run(all, stop.signal);
  }

  end(): void {
    this.stop?.abort();
    this.stop = undefined;
  }

  private async run(all: boolean, signal: AbortSignal): Promise<void> {
    for (let wait = 500; !signal.aborted; wait = Math.min(wait * 2, 15000)) {
      try {
        await follow('/v1/events' + (all ? '?all=true' : ''), { signal }, (name, data) => {
          wait = 500;
          this.connected = true;
          this.problem = '';
          this.take(name, data as never);
          this.changed();
        });
      } catch (e) {
        if (signal.aborted) return;
        if (e instanceof Problem) {
          this.problem = e.message;
          if (e.status === 401 || e.status === 403) {
            this.connected = false;
            this.changed();
            return;
          }
        }
      }
      this.connected = false;
      this.changed();
      await new Promise((r) => setTimeout(r, wait));
    }
  }

  private take(name: string, data: any): void {
    switch (name) {
      case 'sandboxes':
        if (data.first) this.sandboxes.clear();
        for (const s of data.items as Sandbox[]) this.sandboxes.set(keyOf(s), s);
        for (const g of (data.gone ?? []) as Named[]) {
          this.sandboxes.delete(keyOf(g));
          this.gauges.delete(keyOf(g));
        }
        this.stale = true;
        this.ready = true;
        return;
      case 'figures':
        this.figures(Date.parse(data.time) / 1000, data.items as Figure[], data.total as Total);
        return;
      case 'approvals':
        this.approvals = data.items;
        for (const h of this.history) h.ended = h.ended || !this.approvals.some((q) => q.id === h.approval.id);
        for (const q of this.approvals) if (!this.history.some((h) => h.approval.id === q.id)) this.history.unshift({ time: new Date().toISOString(), approval: q });
        this.history = this.history.slice(0, 100);
        return;
      case 'records':
        this.violations = [...(data.violations ?? []).reverse(), ...this.violations].slice(0, keptRecords);
        this.evidence = [...(data.evidence ?? []).reverse(), ...this.evidence].slice(0, keptRecords);
        this.dropped += data.dropped ?? 0;
    }
  }

  private figures(at: number, items: Figure[], total: Total): void {
    const now = new Set<string>();
    for (const f of items) {
      const k = keyOf(f);
      now.add(k);
      const g = this.gauges.get(k);
      if (!g) {
        this.gauges.set(k, { figure: f, at, cpu: 0, spark: [0] });
        continue;
      }
      g.cpu = Math.max(0, f.cpuSeconds - g.figure.cpuSeconds) / Math.max(0.2, at - g.at);
      g.figure = f;
      g.at = at;
      g.spark.push(g.cpu);
      if (g.spark.length > keptSpark) g.spark.shift();
    }
    for (const [k, g] of this.gauges) {
      if (now.has(k)) continue;
      g.at = at;
      if (g.cpu !== 0 || g.spark.some((v) => v !== 0)) {
        g.cpu = 0;
        g.spark.push(0);
        if (g.spark.length > keptSpark) g.spark.shift();
      }
    }
    this.total = total;
    const values = [at, total.cpu, total.memoryBytes, total.running, total.diskBytesPerSecond, total.netBytesPerSecond];
    values.forEach((v, i) => {
      this.series[i].push(v);
      if (this.series[i].length > keptPoints) this.series[i].shift();
    });
  }
}
