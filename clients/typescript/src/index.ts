export { Sandbox, type AppliedChanges, type ApplyOptions, type ChangeList, type ChangesOptions, type CheckpointInfo, type Forked, type ForkOptions, type NetworkRules, type RawRequest, type RolledBack, type RunOptions, type SandboxInfo, type SandboxOptions, type UndoneChanges, type WorkspaceChange } from './sandbox.js'
export {
  Client,
  type ApprovalInfo,
  type Approvals,
  type ClientOptions,
  type NewToken,
  type RecordFilter,
  type TokenInfo,
  type Tokens,
} from './client.js'
export type { Command, CommandOptions, Schemas, Scope } from './api.js'
export type { DaemonOptions } from './daemon.js'
export {
  BudgetExceededError,
  BusyError,
  CapabilityBlockedError,
  DeniedError,
  ExecutionError,
  InternalError,
  NotFoundError,
  PermissionDeniedError,
  SandboxError,
  TimeoutError,
  UnavailableError,
  UnsupportedError,
  ValidationError,
  type ErrorCode,
  type ErrorDetails,
} from './errors.js'
export { CommandError, type Result } from './result.js'
export type { Copied, FileInfo, Files, ReadOptions, WatchEvent, WriteOptions, WrittenFile } from './files.js'
export type {
  AgainEvent,
  AttachOptions,
  DroppedEvent,
  ExitEvent,
  OutputEvent,
  OutputHandlers,
  Process,
  ProcessInfo,
  StartOptions,
  StreamEvent,
  StreamOptions,
} from './process.js'
export type { LineOptions, Shell, ShellOptions } from './shell.js'
export type { Terminal, TerminalOptions } from './terminal.js'
export type { CodeContext, CodeEvent, CodeOptions, CodeRun, CodeStreamEvent, Contexts } from './code.js'
export type { PortAddress, PortInfo, Ports, Share, ShareInfo } from './ports.js'
export type { ToolAnswer, ToolInfo, ToolOptions, ToolProgress, Tools } from './tools.js'
export type { ActionOptions, Browser, BrowserAnswer, BrowserData, BrowserInfo } from './browser.js'
export type { Bytes, CallOptions, Query } from './transport.js'
export type { components, operations, paths } from './generated/openapi.js'
