import type { components } from './generated/openapi.js'

/** The stable codes of failures; messages may change, codes do not. */
export type ErrorCode = components['schemas']['Problem']['code']

/** What there is to know of a failure beside its code and its message. */
export interface ErrorDetails {
  /** What was being done, such as "read file". */
  op?: string | undefined
  /** The part of the request or of the settings at fault. */
  field?: string | undefined
  /** The sandbox, path, host or image concerned. */
  resource?: string | undefined
  /** The status of the answer of HTTP; undefined where there was none. */
  status?: number | undefined
  /** What to do next. */
  hint?: string | undefined
  /** The kernel's name of the cause, such as "ENOENT". */
  reason?: string | undefined
  /** Whether the same call may succeed later. */
  retryable?: boolean | undefined
  /** Seconds after which the daemon wants to be asked again. */
  retryAfter?: number | undefined
  /** The id of the request in the log of the daemon. */
  requestId?: string | undefined
  /** The error that led to this one. */
  cause?: unknown
}

const brand = Symbol.for('@bulkhead/sandbox.error')

/**
 * The error of every call that fails. Each code has a class of its own; a code
 * that is not known is a plain SandboxError. That a command fails is no error but
 * a result with its exit code, unless `check` was set.
 */
export class SandboxError extends Error {
  /** The stable name of the kind of failure, such as "SANDBOX.NOT_FOUND". */
  readonly code: ErrorCode | (string & {})
  readonly op: string | undefined
  readonly field: string | undefined
  readonly resource: string | undefined
  readonly status: number | undefined
  readonly hint: string | undefined
  readonly reason: string | undefined
  readonly retryable: boolean
  readonly retryAfter: number | undefined
  readonly requestId: string | undefined
  /** The message without code, field and hint. */
  readonly detail: string

  constructor(code: string, detail: string, details: ErrorDetails = {}) {
    const parts = [code, details.op, details.field, detail].filter((part) => part !== undefined && part !== '')
    super(parts.join(': ') + (details.hint ? ` (${details.hint})` : ''), 'cause' in details ? { cause: details.cause } : undefined)
    this.code = code
    this.detail = detail
    this.op = details.op
    this.field = details.field
    this.resource = details.resource
    this.status = details.status
    this.hint = details.hint
    this.reason = details.reason
    this.retryable = details.retryable ?? false
    this.retryAfter = details.retryAfter
    this.requestId = details.requestId
    Object.defineProperty(this, brand, { value: new.target.codes })
    Object.defineProperty(this, 'name', { value: new.target.title, configurable: true, writable: true })
  }

  /** The code of the class; empty of SandboxError itself. @internal */
  static readonly codes: string = ''
  /** The name of the class, which minifiers leave alone. @internal */
  static readonly title: string = 'SandboxError'

  /**
   * Errors of the ESM build are errors of the CommonJS build too: a program may
   * have loaded both.
   */
  static override [Symbol.hasInstance](value: unknown): boolean {
    if (typeof value !== 'object' || value === null) return false
    const codes = (value as Record<symbol, unknown>)[brand]
    if (typeof codes !== 'string') return false
    if (!Object.hasOwn(this, 'codes')) return Function.prototype[Symbol.hasInstance].call(this, value)
    return this.codes === '' || this.codes === codes
  }
}

/** SANDBOX.PERMISSION_DENY: no valid token or grant, or something of another owner. */
export class PermissionDeniedError extends SandboxError {
  static override readonly codes: string = 'SANDBOX.PERMISSION_DENY'
  static override readonly title: string = 'PermissionDeniedError'
}

/** SANDBOX.CAPABILITY_BLOCKED: a policy forbids the path, host, size, link or setting. */
export class CapabilityBlockedError extends SandboxError {
  static override readonly codes: string = 'SANDBOX.CAPABILITY_BLOCKED'
  static override readonly title: string = 'CapabilityBlockedError'
}

/** SANDBOX.NOT_FOUND: no such sandbox, shell, command or file. */
export class NotFoundError extends SandboxError {
  static override readonly codes: string = 'SANDBOX.NOT_FOUND'
  static override readonly title: string = 'NotFoundError'
}

/** SANDBOX.BUSY: in use, there already, or it would have to be made anew first. */
export class BusyError extends SandboxError {
  static override readonly codes: string = 'SANDBOX.BUSY'
  static override readonly title: string = 'BusyError'
}

/** SANDBOX.UNSUPPORTED: the provider cannot do that at all. */
export class UnsupportedError extends SandboxError {
  static override readonly codes: string = 'SANDBOX.UNSUPPORTED'
  static override readonly title: string = 'UnsupportedError'
}

/** POLICY.DENY_TOOL: a rule forbids the tool, command or argument. */
export class DeniedError extends SandboxError {
  static override readonly codes: string = 'POLICY.DENY_TOOL'
  static override readonly title: string = 'DeniedError'
}

/** QUOTA.BUDGET_EXCEEDED: a budget or quota is used up. */
export class BudgetExceededError extends SandboxError {
  static override readonly codes: string = 'QUOTA.BUDGET_EXCEEDED'
  static override readonly title: string = 'BudgetExceededError'
}

/** SCHEMA.VALIDATION_FAILED: malformed input or settings; `field` names the place. */
export class ValidationError extends SandboxError {
  static override readonly codes: string = 'SCHEMA.VALIDATION_FAILED'
  static override readonly title: string = 'ValidationError'
}

/** PROVIDER.UNAVAILABLE: no daemon answers, the engine is down, a stream was cut off. */
export class UnavailableError extends SandboxError {
  static override readonly codes: string = 'PROVIDER.UNAVAILABLE'
  static override readonly title: string = 'UnavailableError'
}

/** PROVIDER.TIMEOUT: there was no answer in time. */
export class TimeoutError extends SandboxError {
  static override readonly codes: string = 'PROVIDER.TIMEOUT'
  static override readonly title: string = 'TimeoutError'
}

/** TOOL.EXECUTION_FAILED: the command could not be executed, or has failed where `check` was set. */
export class ExecutionError extends SandboxError {
  static override readonly codes: string = 'TOOL.EXECUTION_FAILED'
  static override readonly title: string = 'ExecutionError'
}

/** UNKNOWN.INTERNAL: a fault of the daemon; its log has it. */
export class InternalError extends SandboxError {
  static override readonly codes: string = 'UNKNOWN.INTERNAL'
  static override readonly title: string = 'InternalError'
}

const classes: ReadonlyMap<string, typeof SandboxError> = new Map(
  [
    PermissionDeniedError,
    CapabilityBlockedError,
    NotFoundError,
    BusyError,
    UnsupportedError,
    DeniedError,
    BudgetExceededError,
    ValidationError,
    UnavailableError,
    TimeoutError,
    ExecutionError,
    InternalError,
  ].map((type) => [type.codes, type]),
)

/** Makes the error of a code. */
export function errorOf(code: string, detail: string, details: ErrorDetails = {}): SandboxError {
  return new (classes.get(code) ?? SandboxError)(code, detail, details)
}

/** The error of an argument that no daemon has to be asked about. @internal */
export function invalid(op: string, field: string, detail: string, hint?: string): SandboxError {
  return errorOf('SCHEMA.VALIDATION_FAILED', detail, { op, field, hint })
}

/**
 * Reads the error of an answer with the status and the body. Only a daemon can say
 * that something does not exist: what is no problem document is PROVIDER.UNAVAILABLE.
 * @internal
 */
export function problem(op: string, status: number | undefined, body: unknown, retryAfter?: number): SandboxError {
  if (typeof body === 'object' && body !== null && 'code' in body && typeof body.code === 'string' && /^[A-Z]+\.[A-Z_]+$/.test(body.code)) {
    const p = body as Record<string, unknown>
    const text = (name: string): string | undefined => (typeof p[name] === 'string' && p[name] !== '' ? p[name] : undefined)
    return errorOf(body.code, text('detail') ?? text('title') ?? 'it failed', {
      op: text('op') ?? op,
      field: text('field'),
      resource: text('resource'),
      status: typeof p['status'] === 'number' ? p['status'] : status,
      hint: text('hint'),
      reason: text('cause'),
      retryable: p['retryable'] === true,
      retryAfter,
      requestId: text('requestId'),
    })
  }
  if (status === 401) {
    return errorOf('SANDBOX.PERMISSION_DENY', 'the daemon knows no such token', {
      op,
      status,
      hint: 'give one that `sandbox token create` made',
    })
  }
  return errorOf('PROVIDER.UNAVAILABLE', `the other side answers ${status ?? 'nothing'} and is no daemon of ours`, {
    op,
    status,
    retryable: status === 502 || status === 503 || status === 504,
    retryAfter,
  })
}
