export interface Me { role: string; tenant?: string; agent?: string; session?: string; readOnly: boolean; login: boolean; expires?: string; idleSeconds?: number; version: string }
export interface Sandbox {
  name: string; id: string; kind: string; provider: string; tenant: string; agent: string; session: string; scope: string; scopeKey: string; status: string;
  image: string; imageMatch: boolean | null; configHash: string; configMatch: boolean | null; workspace?: string; createdAt: string; lastUsedAt: string; expiresAt?: string;
  labels?: Record<string, string>; metadata?: Record<string, string>; preset?: string; onTimeout?: string;
}
export interface Named { name: string; provider: string; tenant: string }
export interface Figure extends Named { cpuSeconds: number; memoryBytes: number; pids: number; diskReadBytes: number; diskWrittenBytes: number; netReceivedBytes: number; netSentBytes: number }
export interface Total { sandboxes: number; running: number; cpu: number; memoryBytes: number; pids: number; diskBytesPerSecond: number; netBytesPerSecond: number }
export interface Approval { id: string; tenant: string; agent: string; session: string; sandbox: string; kind: string; operation: string; resource: string; command: string[]; reason: string; expires: string }
export interface Violation {
  time: string; tenant: string; agent: string; session: string; sandbox: string; type: string; severity: string; verdict: string; kind: string; operation: string; resource: string;
  rule: string; message: string; program: string; command: string; count: number;
}
export interface Evidence { time: string; tenant: string; agent: string; session: string; sandbox: string; command: string; type: string; data: any; omitted?: number }
export interface Usage { cpuSeconds: number; memoryBytes: number; memoryLimitBytes: number; pids: number; pidsLimit: number; diskReadBytes: number; diskWrittenBytes: number; workspaceBytes: number; workspaceComplete: boolean; netReceivedBytes: number; netSentBytes: number; error?: string; status: string }
export interface Process { id: string; pid?: number; tag?: string; command: string; state: string; tty: boolean; startedAt: string; endedAt?: string; bytes: number; exit?: { exitCode: number; signal?: string } }
export interface FileEntry { path: string; name: string; type: string; size: number; mode: string; modifiedAt: string; target?: string; etag?: string }
export interface Port { address: string; port: number; pid?: number; command?: string }
export interface Share { id: string; port: number; host: string; public: boolean; created: string; expires: string }
export interface Change { path: string; kind: string; from?: string; oldMode?: string; mode?: string; size?: number; oldSize?: number; binary?: boolean; unread?: boolean; findings?: { risk: string; why: string; consent: string }[] }
export interface Applied { applied: boolean; id?: string; folder: string; plan: { entries: Change[]; steps: { path: string; action: string }[]; conflicts?: { path: string; why: string }[]; refused?: Change[]; digest: string }; problem?: { detail?: string; hint?: string } }
export interface Chain { ok: boolean; tenant: string; folder: string; records: number; checkpoints: number; unsigned: number; torn: number; files: number; dropped: number; damage: { kind: string; file: string; line?: number; detail: string }[]; signed?: { seq: number; key: string }; last: { seq: number; hash: string }; broken?: { kind: string; file: string; detail: string; id: string; type: string } }
export interface Report { ok: boolean; keys: { id: string; public: string }[]; chains: Chain[] }
export interface Limits { sandboxes: number; commands: number; memory: number; nanoCpus: number; disk: number; requestsPerSecond: number; requestBurst: number }
export interface Tenant { id: string; listed: boolean; refused: boolean; weight: number; limits: Limits; held: { sandboxes: number; commands: number; memory: number; nanoCpus: number; disk: number }; budgets: { token: string; role: string; agent?: string; session?: string; note?: string; expires?: string; bound: Record<string, number>; used: Record<string, number> }[] }
export interface Setting { path: string; value: string; layer: string }
