// Runs what README.md shows, as it stands there, and compares what it prints.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { folder, own, program } from './rig.js'

const root = fileURLToPath(new URL('..', import.meta.url))
const page = readFileSync(join(root, 'README.md'), 'utf8')
const blocks = [...page.matchAll(/^```ts( no-run)?\n([^]*?)^```$/gm)].map(([, skip, text]) => ({ run: skip === undefined, text: text as string }))
const at = join(root, '.readme')
after(() => rmSync(at, { recursive: true, force: true }))

/** What the comments of a text say that it prints. */
const printed = (text: string): string[] => [...text.matchAll(/\/\/ (→ .*)$/gm)].flatMap(([, line]) => (line as string).split('→ ').slice(1).map((one) => one.trim()))

test('the page is there as a whole', () => {
  assert.ok(blocks.length >= 9)
  assert.ok((blocks[0]?.text.trim().split('\n').length ?? 9) <= 3, 'three lines')
})

test('what it shows has the types that it needs, and prints what it says', { timeout: 300_000 }, async () => {
  mkdirSync(at, { recursive: true })
  const [first, ...more] = blocks
  const parts = more.map(({ run, text }) => `${run ? '{' : 'if (no) {'}\n${text.replace(/^import .*$/gm, '')}\n}`)
  writeFileSync(join(at, 'first.ts'), first?.text ?? '')
  writeFileSync(
    join(at, 'more.ts'),
    `import { Client, CommandError, NotFoundError, Sandbox, SandboxError, type Schemas } from '@bulkhead/sandbox'\nconst no = process.argv.length > 9\nconst folder = ${JSON.stringify(folder())}\nawait using sandbox = await Sandbox.open('chat-42')\n${parts.join('\n')}\n`,
  )
  writeFileSync(join(at, 'tsconfig.json'), JSON.stringify({ extends: '../tsconfig.json', compilerOptions: { rootDir: '.', outDir: 'out', declaration: false, noUnusedLocals: false, skipLibCheck: true }, include: ['*.ts'] }))
  const tsc = spawnSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', at], { encoding: 'utf8' })
  assert.equal(tsc.stdout, '')
  const { stateDir, config } = own()
  const env = { SANDBOX_STATE_DIR: stateDir as string, SANDBOX_CONFIG: config as string }
  for (const [name, text] of [['first', first?.text ?? ''], ['more', more.filter((one) => one.run).map((one) => one.text).join('\n')]] as const) {
    const { code, out, err } = await program(`await import(${JSON.stringify(join(at, 'out', `${name}.js`))})`, env).ended
    assert.deepEqual([code, err], [0, ''], name)
    assert.deepEqual(out.split('\n').filter((line) => line !== ''), printed(text), name)
  }
})
