// Holds what is published: both kinds of modules with their types, and generated types
// that are those of docs/openapi.json.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { folder } from './rig.js'

const root = fileURLToPath(new URL('..', import.meta.url))
const node = (...args: string[]): { status: number | null; out: string } => {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', cwd: root })
  return { status, out: stdout + stderr }
}

test('generated types are those of docs/openapi.json', () => {
  const fresh = join(folder(), 'openapi.ts')
  const made = node('node_modules/openapi-typescript/bin/cli.js', '../../docs/openapi.json', '-o', fresh)
  assert.equal(made.status, 0, made.out)
  assert.ok(readFileSync(fresh, 'utf8') === readFileSync(join(root, 'src/generated/openapi.ts'), 'utf8'), 'src/generated/openapi.ts is stale: run npm run generate')
})

test('it is ESM and CommonJS with types for both', { timeout: 300_000 }, async (t) => {
  const at = folder()
  mkdirSync(join(at, 'node_modules', '@bulkhead'), { recursive: true })
  symlinkSync(root, join(at, 'node_modules', '@bulkhead', 'sandbox'))
  const uses = `
    export async function use(): Promise<number> {
      await using sandbox: Sandbox = await Sandbox.open('x', { keep: false })
      const r = await sandbox.run(['true'], { onStdout: (text, data) => { text.length + data.length } })
      for await (const e of sandbox.stream('x')) if (e.type === 'exit') return e.exitCode
      // @ts-expect-error: there is no such option
      await sandbox.run('x', { timeoutMs: 1 })
      // @ts-expect-error: a result has a number here
      const wrong: string = r.exitCode
      return wrong.length
    }
    console.log(typeof Sandbox.open, new SandboxError('X.Y', 'z').code)
  `
  writeFileSync(join(at, 'esm.mts'), `import { Sandbox, SandboxError } from '@bulkhead/sandbox'\n${uses}`)
  writeFileSync(join(at, 'cjs.cts'), `import { Sandbox, SandboxError } from '@bulkhead/sandbox'\n${uses}`)
  writeFileSync(join(at, 'old.cts'), `import sandbox = require('@bulkhead/sandbox')\nconst { Sandbox, SandboxError } = sandbox\ntype Sandbox = sandbox.Sandbox\n${uses}`)
  writeFileSync(join(at, 'bundled.ts'), `import { Sandbox, SandboxError } from '@bulkhead/sandbox'\n${uses}`)
  const compile = (name: string, more: object, files: string[]): void => {
    const config = join(at, `${name}.json`)
    const compilerOptions = { target: 'es2022', lib: ['es2022', 'esnext.disposable'], strict: true, exactOptionalPropertyTypes: true, types: ['node'], typeRoots: [join(root, 'node_modules/@types')], outDir: 'out', rootDir: '.', skipLibCheck: false, ...more }
    writeFileSync(config, JSON.stringify({ compilerOptions, files }))
    const made = node('node_modules/typescript/bin/tsc', '-p', config)
    assert.equal(made.out, '')
  }
  await t.test('node16', () => {
    compile('node16', { module: 'node16', moduleResolution: 'node16' }, ['esm.mts', 'cjs.cts', 'old.cts'])
    for (const file of ['esm.mjs', 'cjs.cjs', 'old.cjs']) assert.deepEqual(node('--preserve-symlinks', join(at, 'out', file)), { status: 0, out: 'function X.Y\n' }, file)
  })
  await t.test('bundler', () => compile('bundler', { module: 'es2022', moduleResolution: 'bundler', noEmit: true }, ['bundled.ts']))
  await t.test('each named import is there in both', () => {
    const esm = node('--input-type=module', '-e', "import * as all from '@bulkhead/sandbox'; console.log(Object.keys(all).sort().join())").out
    const cjs = node('-e', "console.log(Object.keys(require('@bulkhead/sandbox')).filter((n) => n !== '__esModule').sort().join())").out
    assert.ok(esm.includes('CommandError'))
    assert.equal(esm, cjs)
  })
})
