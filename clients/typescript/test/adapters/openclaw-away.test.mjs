// OpenClaw with the plugin and a daemon that is away.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { away } from './common.mjs'
import { configure, folder, run, scripted } from './openclaw-home.mjs'

test('an agent whose daemon is away does not run on the host', async t => {
  const home = folder(t)
  const { url, answers } = await scripted(t, [['exec', { command: `touch ${home}/escaped` }]])
  configure(home, path.join(home, 'work'), url, { url: away })
  const { out, err, code } = await run(home, ['agent', '--local', '--session-id', 'away', '--message', 'go', '--json'])
  assert.notEqual(code, 0)
  assert.match(out + err, /PROVIDER\.UNAVAILABLE/)
  assert.deepEqual(answers, [])
  assert.throws(() => readFileSync(path.join(home, 'escaped')))
})
