import { ExecutionError } from './errors.js'
import type { Schemas } from './api.js'

/** How a command ended, and what it wrote as far as it was kept. */
export class Result {
  /** 127: no such program, 126: it is not executable, or its folder cannot be entered. */
  readonly exitCode: number
  /** As text; bytes that are no UTF-8 are U+FFFD in it, see stdoutBytes. */
  readonly stdout: string
  readonly stderr: string
  /** How many bytes it wrote, also where not all of them were kept. */
  readonly stdoutSize: number
  readonly stderrSize: number
  /** Not all of the output is here. */
  readonly truncated: boolean
  /** It ended because its time was over. */
  readonly timedOut: boolean
  /** The signal that ended it, such as "KILL". */
  readonly signal: string | undefined
  /** Rules have stopped it, with evidence. */
  readonly blocked: boolean
  readonly blockedReason: string | undefined
  readonly blockedResource: string | undefined
  /** Of a shell: it was started again, and its state is lost. */
  readonly restarted: boolean
  /** Of a shell: its working folder, which a rollback has taken away. The line began in the workspace. */
  readonly lostDir: string | undefined
  readonly durationMs: number
  readonly userMs: number
  readonly systemMs: number
  readonly maxRssBytes: number
  /** What rules stopped. */
  readonly violations: readonly Schemas['Violation'][]
  readonly warnings: readonly string[]
  /** The limit that was reached. */
  readonly limit: Schemas['LimitHit'] | undefined
  /** Processes that it had left running, which were ended with it. */
  readonly left: Schemas['Left'] | undefined
  readonly waited: Schemas['Waited'] | undefined
  /** The name of the sandbox. */
  readonly sandbox: string
  readonly #stdout: Uint8Array | undefined
  readonly #stderr: Uint8Array | undefined

  /** @internal */
  constructor(exit: Schemas['Exit'], stdout: string | Uint8Array, stderr: string | Uint8Array, truncated = exit.truncated) {
    this.exitCode = exit.exitCode
    this.stdout = typeof stdout === 'string' ? stdout : decode(stdout)
    this.stderr = typeof stderr === 'string' ? stderr : decode(stderr)
    this.stdoutSize = exit.stdoutBytes
    this.stderrSize = exit.stderrBytes
    this.truncated = truncated
    this.timedOut = exit.timedOut
    this.signal = exit.signal
    this.blocked = exit.blocked
    this.blockedReason = exit.blockedReason
    this.blockedResource = exit.blockedResource
    this.restarted = exit.restarted
    this.lostDir = exit.lostDir
    this.durationMs = exit.durationMs
    this.userMs = exit.userMs
    this.systemMs = exit.systemMs
    this.maxRssBytes = exit.maxRssBytes
    this.violations = exit.violations
    this.warnings = exit.warnings ?? []
    this.limit = exit.limit
    this.left = exit.left
    this.waited = exit.waited
    this.sandbox = exit.sandbox
    this.#stdout = typeof stdout === 'string' ? undefined : stdout
    this.#stderr = typeof stderr === 'string' ? undefined : stderr
  }

  /** What it wrote, byte by byte. */
  get stdoutBytes(): Uint8Array {
    return this.#stdout ?? encode(this.stdout)
  }

  get stderrBytes(): Uint8Array {
    return this.#stderr ?? encode(this.stderr)
  }

  /** Whether it ended with the status 0. */
  get ok(): boolean {
    return this.exitCode === 0
  }
}

/** The error of a command that ended with another status than 0 where `check` was set. */
export class CommandError extends ExecutionError {
  static override readonly title: string = 'CommandError'
  readonly result: Result

  constructor(op: string, result: Result) {
    const how = result.timedOut ? 'its time was over' : result.signal !== undefined ? `it was ended by ${result.signal}` : `it ended with status ${result.exitCode}`
    const last = result.stderr.trim().split('\n').at(-1)
    super('TOOL.EXECUTION_FAILED', `the command has failed: ${how}${last ? `: ${last.slice(0, 400)}` : ''}`, { op })
    this.result = result
  }
}

/** @internal */
export function checked(op: string, result: Result, check: boolean | undefined): Result {
  if (check === true && !result.ok) throw new CommandError(op, result)
  return result
}

/** @internal */
export function resultOf(r: Schemas['ExecResult']): Result {
  return new Result(
    r,
    r.stdoutBase64 === undefined ? r.stdout : unbase(r.stdoutBase64),
    r.stderrBase64 === undefined ? r.stderr : unbase(r.stderrBase64),
  )
}

/** @internal */
export function unbase(text: string): Uint8Array {
  const b = Buffer.from(text, 'base64')
  return b.byteOffset === 0 && b.buffer.byteLength === b.byteLength ? new Uint8Array(b.buffer) : new Uint8Array(b)
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
const encoder = new TextEncoder()

/** @internal */
export function decode(bytes: Uint8Array): string {
  return decoder.decode(bytes)
}

/** @internal */
export function encode(text: string): Uint8Array {
  return encoder.encode(text)
}

/** The end of an output: at most so many bytes of it are kept. @internal */
export class Collected {
  #parts: Uint8Array[] = []
  #size = 0
  /** Bytes are missing. */
  lost = false

  constructor(readonly most: number) {}

  push(bytes: Uint8Array): void {
    this.#parts.push(bytes)
    this.#size += bytes.byteLength
    while (this.#size > this.most) {
      const first = this.#parts[0] as Uint8Array
      const over = this.#size - this.most
      this.lost = true
      if (first.byteLength <= over) this.#parts.shift()
      else this.#parts[0] = first.subarray(over)
      this.#size -= Math.min(over, first.byteLength)
    }
  }

  clear(): void {
    this.#parts = []
    this.#size = 0
    this.lost = false
  }

  bytes(): Uint8Array {
    const all = new Uint8Array(this.#size)
    let at = 0
    for (const p of this.#parts) {
      all.set(p, at)
      at += p.byteLength
    }
    return all
  }
}
