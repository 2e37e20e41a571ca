// What tests share: a daemon of their own with the program of $SANDBOX_BINARY.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import assert from 'node:assert/strict'
import { Client, SandboxError, type DaemonOptions } from '@bulkhead/sandbox'

/** A new folder, which is removed after the tests of the file. */
export function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'sdk-ts-'))
  after(() => rmSync(made, { recursive: true, force: true }))
  return made
}

/** The options of an embedded daemon with a state of its own, and settings. */
export function own(settings: { sandbox?: object } & Record<string, unknown> = {}): DaemonOptions {
  const at = folder()
  const config = join(at, 'settings.json')
  const { sandbox = {}, ...more } = settings
  writeFileSync(config, JSON.stringify({ agents: { defaults: { sandbox: { provider: 'local', ...sandbox } } }, ...more }))
  return { stateDir: join(at, 'state'), config }
}

/** A client of a daemon of its own, which is closed after the tests of the file. */
export async function client(settings?: Parameters<typeof own>[0]): Promise<Client> {
  const made = await Client.open(own(settings))
  after(() => made.close())
  return made
}

/** Waits until a condition holds. */
export async function until(holds: () => boolean | Promise<boolean>, what: string, within = 60_000): Promise<void> {
  for (const end = Date.now() + within; ; ) {
    if (await holds()) return
    if (Date.now() > end) throw new Error(`it does not come: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** Runs a program of Node to its end, and returns its output and status. */
export function program(text: string, env: Record<string, string> = {}) {
  const child = spawn(process.execPath, ['--input-type=module', '-e', text], { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] })
  let out = ''
  let err = ''
  child.stdout.on('data', (data) => (out += String(data)))
  child.stderr.on('data', (data) => (err += String(data)))
  return { child, ended: new Promise<{ code: number | null; signal: string | null; out: string; err: string }>((resolve) => child.on('close', (code, signal) => resolve({ code, signal, out, err }))), out: () => out }
}

/** Asserts that a promise fails with an error of a class and with these fields. */
export async function fails(promise: Promise<unknown>, type: abstract new (...args: never[]) => unknown, fields: Partial<Record<keyof SandboxError, unknown>> = {}): Promise<void> {
  await assert.rejects(promise, (error: SandboxError) => {
    assert.ok(error instanceof type, `${error?.constructor?.name}: ${error?.message}`)
    assert.ok(error instanceof SandboxError && error instanceof Error)
    for (const [name, value] of Object.entries(fields)) assert.equal(error[name as keyof SandboxError], value, `${name} of ${error.message}`)
    return true
  })
}
