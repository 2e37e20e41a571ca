import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants, statSync } from 'node:fs'
import * as path from 'node:path'
import { createInterface } from 'node:readline'
import { errorOf } from './errors.js'
import { rest } from './transport.js'

/** How an embedded daemon is started. */
export interface DaemonOptions {
  /** The program; $SANDBOX_BINARY, or sandbox on $PATH without. */
  binary?: string | undefined
  /** The folder of its state; programs with the same one share a daemon. That of the command line without. */
  stateDir?: string | undefined
  /** Its settings file; that of the command line without. */
  config?: string | undefined
}

const op = 'start daemon'
const startWithin = 60_000
const maxLog = 8 << 10

/** A daemon that lives as long as this process needs it. @internal */
export interface Embedded {
  /** Its address now: one that takes the place of a daemon that was killed may have another. */
  readonly url: string
  /** Its process runs; that of a shared one may be another program's. */
  readonly alive: boolean
  release(): Promise<void>
}

interface Running {
  uses: number
  ready: Promise<string>
  url: string
  readonly alive: boolean
  stop(): Promise<void>
}

const running = new Map<string, Running>()

/** Starts the daemon of these options, or shares the one that runs already. @internal */
export async function embedded(options: DaemonOptions, signal: AbortSignal | undefined): Promise<Embedded> {
  const binary = find(options.binary)
  const key = JSON.stringify([binary, options.stateDir, options.config])
  let daemon = running.get(key)
  if (daemon === undefined) {
    const started = start(binary, options, () => {
      if (running.get(key) === started) running.delete(key)
    })
    running.set(key, (daemon = started))
  }
  const mine = daemon
  mine.uses++
  let released: Promise<void> | undefined
  const release = (): Promise<void> =>
    (released ??= (async () => {
      if (--mine.uses > 0) return
      if (running.get(key) === mine) running.delete(key)
      await mine.stop()
    })())
  try {
    await withSignal(mine.ready, signal)
  } catch (error) {
    await release()
    throw error
  }
  return {
    get url() {
      return mine.url
    },
    get alive() {
      return mine.alive
    },
    release,
  }
}

function withSignal<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise
  const stopped = new AbortController()
  const abort = (): void => stopped.abort(signal.reason)
  if (signal.aborted) abort()
  else signal.addEventListener('abort', abort, { once: true })
  return Promise.race([
    promise,
    new Promise<never>((_, reject) => {
      if (stopped.signal.aborted) reject(signal.reason as Error)
      else stopped.signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
    }),
  ]).finally(() => signal.removeEventListener('abort', abort))
}

/** The path of the program. */
function find(named: string | undefined): string {
  const given = named ?? process.env['SANDBOX_BINARY']
  if (given !== undefined && given !== '') {
    if (isProgram(given)) return path.resolve(given)
    throw errorOf('PROVIDER.UNAVAILABLE', 'the program of the daemon is not there, or cannot be run', {
      op,
      field: named === undefined ? 'SANDBOX_BINARY' : 'binary',
      resource: given,
      hint: 'name the program sandbox',
    })
  }
  for (const folder of (process.env['PATH'] ?? '').split(path.delimiter)) {
    const file = path.join(folder === '' ? '.' : folder, process.platform === 'win32' ? 'sandbox.exe' : 'sandbox')
    if (isProgram(file)) return path.resolve(file)
  }
  throw errorOf('PROVIDER.UNAVAILABLE', 'there is no address of a daemon, and no program sandbox that could be one', {
    op,
    field: 'url',
    hint: 'give url or set SANDBOX_SERVER, or put sandbox into PATH or name it by SANDBOX_BINARY',
  })
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}

function start(binary: string, o: DaemonOptions, ended: () => void): Running {
  const args: string[] = []
  if (o.config !== undefined) args.push('--config', o.config)
  if (o.stateDir !== undefined) args.push('--state-dir', o.stateDir)
  args.push('serve', '--embedded')
  // It ends when its input closes, as the kernel does when this process ends,
  // however that ends. In a group of its own it does not get the signals of a
  // terminal, because other programs may share it.
  const env: NodeJS.ProcessEnv = { ...process.env }
  delete env['SANDBOX_SERVER']
  delete env['SANDBOX_TOKEN']
  const child = spawn(binary, args, { stdio: ['pipe', 'ignore', 'pipe'], detached: true, env })
  let log = ''
  const daemon: Running = {
    uses: 0,
    url: '',
    ready: Promise.resolve(''),
    get alive() {
      return child.exitCode === null && child.signalCode === null
    },
    stop: () => stop(child),
  }
  daemon.ready = new Promise<string>((resolve, reject) => {
    const failed = (detail: string, cause?: Error): void => {
      clearTimeout(timer)
      ended()
      const last = log.trim().split('\n').at(-1)
      reject(
        errorOf('PROVIDER.UNAVAILABLE', `the daemon does not start: ${detail}${last ? `: ${last}` : ''}`, {
          op,
          resource: binary,
          hint: 'try `sandbox serve` and `sandbox doctor`',
          ...(cause === undefined ? {} : { cause }),
        }),
      )
    }
    const timer = setTimeout(() => {
      failed('it does not listen in time')
      child.kill('SIGKILL')
    }, startWithin)
    child.once('error', (cause) => failed(cause.message, cause))
    child.once('exit', ended)
    // With its output at an end, so that the log has the reason.
    child.once('close', (code, signal) => failed(signal === null ? `it has ended with status ${code}` : `it was ended by ${signal}`))
    child.stdin?.on('error', () => undefined)
    createInterface({ input: child.stderr as NodeJS.ReadableStream }).on('line', (line) => {
      const at = /listening at (unix:.+)$/.exec(line)?.[1]
      if (at === undefined) log = `${log}${line}\n`.slice(-maxLog)
      else {
        daemon.url = at
        clearTimeout(timer)
        idle(child)
        resolve(at)
      }
    })
  })
  daemon.ready.catch(() => undefined)
  return daemon
}

/** The process does not keep this one alive. */
function idle(child: ChildProcess): void {
  child.unref()
  for (const stream of [child.stdin, child.stderr]) (stream as unknown as { unref(): void } | null)?.unref()
}

/** Closes the input, and waits a short time: a daemon that others share goes on. */
async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return
  const over = new AbortController()
  const exit = once(child, 'exit', { signal: over.signal }).catch(() => undefined)
  child.stdin?.end()
  await Promise.race([exit, rest(2000, over.signal).catch(() => undefined)])
  over.abort()
}
