// The programs of ADAPTERS.md, as they are there.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { text } from './common.mjs'
import { blocks } from './page.mjs'

const want = { deepagents: 'it is 42\n', 'ai-sdk': '1 Linux\n\n', 'openai-agents': 'it is 42\n' }

for (const program of blocks('js')) {
  const [, adapter] = /@bulkhead\/sandbox\/([a-z-]+)/.exec(program)
  test(adapter, async () => {
    assert.ok(program.split('\n').length <= 11, 'it is short')
    const file = path.join(import.meta.dirname, `program-${adapter}.mjs`)
    writeFileSync(file, program)
    const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'inherit'] })
    const [out, code] = await Promise.all([text(child.stdout), new Promise(resolve => child.on('close', resolve))])
    assert.deepEqual([out, code], [want[adapter], 0])
  })
}

test('there is one for each adapter that is imported', () => {
  assert.deepEqual(blocks('js').map(b => /@bulkhead\/sandbox\/([a-z-]+)/.exec(b)[1]), Object.keys(want))
})
