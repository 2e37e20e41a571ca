const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function bytes(n: number): string {
  let u = 0;
  while (n >= 1024 && u < units.length - 1) {
    n /= 1024;
    u++;
  }
  return `${u === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[u]}`;
}

export function cpu(cores: number): string {
  return cores >= 10 ? cores.toFixed(0) : cores.toFixed(2);
}

export function percent(cores: number): string {
  return `${(cores * 100).toFixed(cores < 0.1 ? 1 : 0)} %`;
}

export function ago(time: string | undefined, now = Date.now()): string {
  if (!time) return '';
  const s = Math.max(0, Math.round((now - Date.parse(time)) / 1000));
  return span(s);
}

export function span(s: number): string {
  if (s < 60) return `${Math.round(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function clock(time: string): string {
  const d = new Date(time);
  return Number.isNaN(d.getTime()) ? '' : d.toLocaleTimeString(undefined, { hour12: false });
}

export function moment(time: string | undefined): string {
  if (!time) return '';
  const d = new Date(time);
  const today = new Date().toDateString() === d.toDateString();
  return today ? clock(time) : `${d.toLocaleDateString()} ${clock(time)}`;
}

// visible replaces characters that would not be seen, or that change the order of
// others, by their code points: a name must look like what it is.
export function visible(s: string | undefined): string {
  return (s ?? '').replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g, (c) => `\\u{${c.codePointAt(0)!.toString(16)}}`);
}

export function number(n: number): string {
  return n === -1 ? 'no bound' : n.toLocaleString();
}

// httpOnly returns an address that a link may have, and undefined for every other.
export function httpOnly(address: string | undefined): string | undefined {
  try {
    const u = new URL(address ?? '');
    return u.protocol === 'http:' || u.protocol === 'https:' ? u.href : undefined;
  } catch {
    return undefined;
  }
}
