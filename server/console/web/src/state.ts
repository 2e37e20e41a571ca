import { Live } from './live';
import type { Me } from './types';
import { Problem } from './api';

export const live = new Live();

// session is who uses the page.
export const session: { me?: Me } = {};

export function canWrite(): boolean {
  return session.me !== undefined && !session.me.readOnly;
}

export function reaches(role: 'admin' | 'tenant' | 'session'): boolean {
  const rank = { session: 1, tenant: 2, admin: 3 };
  return session.me !== undefined && rank[session.me.role as keyof typeof rank] >= rank[role];
}

type Notice = { id: number; text: string; bad: boolean };
let notices: Notice[] = [];
let next = 1;
const heard = new Set<() => void>();

export function onNotices(fn: () => void): () => void {
  heard.add(fn);
  return () => heard.delete(fn);
}

export const allNotices = (): Notice[] => notices;

export function dismiss(id: number): void {
  notices = notices.filter((n) => n.id !== id);
  for (const fn of heard) fn();
}

// say shows a short message for some seconds.
export function say(text: string, bad = false): void {
  const id = next++;
  notices = [...notices.slice(-3), { id, text, bad }];
  for (const fn of heard) fn();
  setTimeout(() => dismiss(id), bad ? 9000 : 4000);
}

// attempt does something, and shows what became of it.
export async function attempt(doing: () => Promise<unknown>, done = ''): Promise<boolean> {
  try {
    await doing();
    if (done) say(done);
    return true;
  } catch (e) {
    say(e instanceof Problem ? e.message + (e.hint ? `. ${e.hint}` : '') : String(e), true);
    return false;
  }
}
