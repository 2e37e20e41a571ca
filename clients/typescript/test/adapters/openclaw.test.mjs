// The plugin for OpenClaw: OpenClaw loads it, and runs an agent whose model follows a
// script and is served on loopback. Then the parts of the backend by themselves.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { Client, Sandbox } from '@bulkhead/sandbox'
import { registration } from '@bulkhead/sandbox/openclaw'
import { away, text, thrown } from './common.mjs'
import { configure, folder, run, scripted } from './openclaw-home.mjs'

test('an agent of OpenClaw uses its tools in the sandbox', async t => {
  const home = folder(t)
  const workspace = path.join(home, 'work')
  mkdirSync(path.join(workspace, 'docs'), { recursive: true })
  writeFileSync(path.join(workspace, 'docs', 'given.txt'), 'from the host ä\n')
  const { url, answers } = await scripted(t, [
    ['exec', { command: 'cat docs/given.txt; id -un; pwd; echo "$LANG"; test -e /work/brief.md || echo inside' }],
    ['write', { path: 'made.py', content: 'print("first")\n' }],
    ['edit', { path: 'made.py', edits: [{ oldText: 'first', newText: 'second' }] }],
    ['exec', { command: 'python3 made.py' }],
    ['read', { path: 'docs/given.txt' }],
    ['read', { path: '/etc/passwd' }],
    ['exec', { command: 'rm -rf /' }],
    ['exec', { command: 'sleep 1005', timeout: 1 }],
    ['exec', { command: 'pgrep -x sleep || echo no sleep' }],
  ])
  configure(home, workspace, url)
  const { out, err, code } = await run(home, ['agent', '--local', '--session-id', 'one', '--message', 'go', '--json'])
  assert.equal(code, 0, `${out}\n${err}`)
  assert.match(out, /all is done/)
  const expected = [/from the host ä\nsandbox\n\/workspace\nC\.UTF-8\ninside/, /made\.py/, /made\.py/, /second/, /from the host ä/, /passwd/, /POLICY\.DENY_TOOL/, /time/i, /no sleep/]
  for (const [i, answer] of answers.entries()) assert.match(answer, expected[i], `step ${i}: ${answer}`)
  assert.equal(answers.length, expected.length)
  assert.ok(!answers[5].includes('root:x'), answers[5])
  // All of it happened in the one sandbox of the session, and nothing on the host.
  const mine = []
  for await (const info of (await Client.open()).sandboxes()) if (info.session.startsWith('openclaw-')) mine.push(info)
  assert.equal(mine.length, 1)
  const sandbox = await Sandbox.connect(mine[0].name)
  assert.equal(Buffer.from(await sandbox.files.read('made.py')).toString(), 'print("second")\n')
  assert.throws(() => readFileSync(path.join(workspace, 'made.py')))

  await t.test('OpenClaw removes it', async () => {
    const removed = await run(home, ['sandbox', 'recreate', '--all', '--force'])
    assert.equal(removed.code, 0, removed.out + removed.err)
    assert.equal((await thrown(() => Sandbox.connect(sandbox.name))).code, 'SANDBOX.NOT_FOUND')
  })
})

/** What OpenClaw gives to the factory of a backend. */
const params = (workspaceDir, scopeKey, rest = {}) => ({ sessionKey: scopeKey, scopeKey, workspaceDir, agentWorkspaceDir: workspaceDir, cfg: { workspaceAccess: 'rw', docker: {} }, ...rest })

test('the backend by itself', async t => {
  const home = folder(t)
  const workspace = path.join(home, 'work')
  mkdirSync(path.join(workspace, 'skills', 'one'), { recursive: true })
  writeFileSync(path.join(workspace, 'skills', 'one', 'SKILL.md'), 'skill')
  mkdirSync(path.join(home, 'handed', 'skills'), { recursive: true })
  writeFileSync(path.join(home, 'handed', 'skills', 'new.md'), 'new')
  const { factory, manager, resolveWorkdir } = registration()
  const scope = 'agent:main:' + 'x'.repeat(500) + ' ä/..'
  const handle = await factory(params(workspace, scope, { skillsWorkspaceDir: path.join(home, 'handed') }))
  const ended = async (seconds) => {
    for (let i = 0; (await handle.runShellCommand({ script: `pgrep -x sleep -a | grep ${seconds}`, allowFailure: true })).code != 1; i++) {
      assert.ok(i < 100, 'it goes on')
      await new Promise(resolve => setTimeout(resolve, 50))
    }
  }
  t.after(() => manager.removeRuntime({ entry: { containerName: handle.runtimeId, image: 'default' } }))
  const bridge = handle.createFsBridge({ sandbox: { workspaceDir: workspace, skillsWorkspaceDir: path.join(home, 'handed'), workspaceAccess: 'rw' } })
  assert.equal(resolveWorkdir(), '/workspace')

  const exec = async (command, env = {}, options = {}) => {
    const { argv, env: own, stdinMode } = await handle.buildExecSpec({ command, env, usePty: false, ...options })
    const child = spawn(argv[0], argv.slice(1), { env: own, stdio: [stdinMode == 'pipe-open' ? 'pipe' : 'ignore', 'pipe', 'pipe'] })
    child.stdin?.end(options.input ?? '')
    const [out, err, code] = await Promise.all([text(child.stdout), text(child.stderr), new Promise(resolve => child.on('close', resolve))])
    return { out, err, code, argv }
  }

  await t.test('a second program has the same sandbox', async () => {
    const again = await registration().factory(params(workspace, scope))
    assert.equal(again.runtimeId, handle.runtimeId)
    const [one, two] = await Promise.all([1, 2].map(() => registration().factory(params(workspace, 'both'))))
    assert.equal(one.runtimeId, two.runtimeId)
    assert.notEqual(one.runtimeId, handle.runtimeId)
    await manager.removeRuntime({ entry: { containerName: one.runtimeId, image: 'default' } })
    await manager.removeRuntime({ entry: { containerName: one.runtimeId, image: 'default' } })
  })
  await t.test('commands reach the shell as they are', async () => {
    const lines = ["printf '%s' \"it's\" '\"quoted\"' $((1+1))", 'echo "$0 $#"', '-n; echo dash', 'cat <<"EOF"\nline $x `y`\n\ttab\nEOF', 'echo a \\\n  b', "echo '--help' -- -e", 'printf "%s" "ü🙂"']
    const want = ['it\'s"quoted"2', 'sh 0\n', 'dash\n', 'line $x `y`\n\ttab\n', 'a b\n', '--help -- -e\n', 'ü🙂']
    for (const [i, line] of lines.entries()) assert.equal((await exec(line)).out, want[i], line)
    assert.equal((await exec('exit 42')).code, 42)
    assert.match((await exec('rm -rf /')).err, /POLICY\.DENY_TOOL/)
    assert.equal((await exec('pwd', {}, { workdir: '/workspace/skills' })).out, '/workspace/skills\n')
  })
  await t.test('variables', async () => {
    const env = { PLAIN: 'it\'s\n"two" $lines', EMPTY: '', PATH: '/opt/x:/usr/bin:/bin', SANDBOX_TOKEN: 'inner', HTTPS_PROXY: 'http://127.0.0.1:1', LD_PRELOAD: '', SECRET: 'not-in-ps' }
    const { out, argv } = await exec('for n in PLAIN EMPTY PATH SANDBOX_TOKEN HTTPS_PROXY SECRET; do eval "printf \'%s=%s|\' $n \\"\\$$n\\""; done', env)
    assert.equal(out, `PLAIN=${env.PLAIN}|EMPTY=|PATH=${env.PATH}|SANDBOX_TOKEN=inner|HTTPS_PROXY=http://127.0.0.1:1|SECRET=not-in-ps|`)
    // Arguments are seen by every user of the machine.
    assert.ok(!argv.join(' ').includes('not-in-ps'))
    assert.ok(!argv.join(' ').includes(process.env.SANDBOX_TOKEN))
    for (const name of ['A=B', '-e', 'a b', '']) assert.equal((await thrown(() => exec('true', { [name]: 'x' }))).code, 'SCHEMA.VALIDATION_FAILED', name)
    assert.equal((await thrown(() => exec('true', { A: 'a\0b' }))).code, 'SCHEMA.VALIDATION_FAILED')
  })
  await t.test('a command that is killed ends inside too', async () => {
    const { argv, env } = await handle.buildExecSpec({ command: 'echo up; sleep 1006', env: {}, usePty: false })
    const child = spawn(argv[0], argv.slice(1), { env, stdio: ['ignore', 'pipe', 'inherit'] })
    await new Promise(resolve => child.stdout.once('data', resolve))
    child.kill('SIGKILL')
    await ended('1006')
  })
  await t.test('terminals', async () => {
    assert.match((await exec("test -t 1 && echo a terminal; read x; echo got \"$x\"", {}, { usePty: true, input: 'typed\n' })).out, /a terminal\r?\n[^]*got typed/)
  })
  await t.test('scripts', async () => {
    const result = await handle.runShellCommand({ script: 'printf "%s|" "$@"; cat; printf "\\377" >&2', args: ['a b', '', '-n', "it's"], stdin: Buffer.from([0, 254]) })
    assert.deepEqual([result.stdout.toString('latin1'), [...result.stderr], result.code], ["a b||-n|it's|\0\xfe", [255], 0])
    assert.equal((await handle.runShellCommand({ script: 'exit 9', allowFailure: true })).code, 9)
    assert.match((await thrown(() => handle.runShellCommand({ script: 'echo why >&2; exit 9' }))).message, /why/)
    const reason = new Error('enough')
    const abort = new AbortController()
    setTimeout(() => abort.abort(reason), 300)
    await thrown(() => handle.runShellCommand({ script: 'sleep 1007', signal: abort.signal }))
    await ended('1007')
  })
  await t.test('working directories', async () => {
    assert.equal(await handle.validateWorkdir('/workspace/skills'), '/workspace/skills')
    for (const folder of ['/workspace/none', '/etc', '/workspace/../etc', '/workspace/skills/one/SKILL.md']) assert.equal(await handle.validateWorkdir(folder), null, folder)
  })
  await t.test('files', async () => {
    const at = (filePath, rest = {}) => ({ filePath, ...rest })
    for (const [file, cwd] of [['a/b', undefined], ['/workspace/a/b', undefined], [path.join(workspace, 'a/b'), undefined], ['b', '/workspace/a'], ['b', path.join(workspace, 'a')], ['./x/../a//b', undefined]]) {
      assert.deepEqual(bridge.resolvePath(at(file, { cwd })), { relativePath: 'a/b', containerPath: '/workspace/a/b' }, file)
    }
    for (const file of ['/etc/passwd', '../x', '/workspace/../x', '/workspacex', home, path.join(workspace, '../x')]) assert.throws(() => bridge.resolvePath(at(file)), /not in the workspace/, file)
    const data = Buffer.from([0, 255, 10])
    await bridge.writeFile(at('new/ü.bin', { data }))
    assert.deepEqual(await bridge.readFile(at('new/ü.bin')), data)
    assert.deepEqual(await bridge.readFile(at('new/ü.bin', { maxBytes: 3 })), data)
    await assert.rejects(bridge.readFile(at('new/ü.bin', { maxBytes: 2 })), /more than 2 bytes/)
    assert.equal((await thrown(() => bridge.readFile(at('none')))).code, 'ENOENT')
    await bridge.writeFile(at('text', { data: 'aGk=', encoding: 'base64' }))
    assert.equal(String(await bridge.readFile(at('text'))), 'hi')
    assert.equal((await thrown(() => bridge.writeFile(at('no/parent', { data, mkdir: false })))).code, 'SANDBOX.NOT_FOUND')
    assert.deepEqual([await bridge.createFileExclusive(at('once', { data: 'x' })), await bridge.createFileExclusive(at('once', { data: 'y' })), String(await bridge.readFile(at('once')))], ['created', 'exists', 'x'])
    await bridge.mkdirp(at('p/q/r'))
    await bridge.mkdirp(at('p/q/r'))
    await bridge.copyFile({ sourcePath: 'new/ü.bin', destinationPath: 'p/copy' })
    await bridge.rename({ from: 'p/copy', to: 'text' })
    assert.deepEqual(await bridge.readFile(at('text')), data)
    assert.deepEqual((await bridge.readDirectory(at('p'))), [{ name: 'q', isDirectory: true }])
    const stat = await bridge.stat(at('text'))
    assert.deepEqual([stat.type, stat.size, Math.abs(stat.mtimeMs - Date.now()) < 60_000], ['file', 3, true])
    assert.deepEqual([(await bridge.stat(at('p'))).type, (await bridge.stat(at('.'))).type, await bridge.stat(at('none'))], ['directory', 'directory', null])
    await handle.runShellCommand({ script: 'ln -s /etc/passwd out; ln -s text in; ln -s /etc dir' })
    assert.equal((await bridge.stat(at('in'))).type, 'file')
    for (const call of [() => bridge.readFile(at('out')), () => bridge.writeFile(at('out', { data })), () => bridge.readDirectory(at('dir')), () => bridge.writeFile(at('dir/x', { data })), () => bridge.stat(at('out'))]) {
      assert.match((await thrown(call)).code, /SANDBOX\.(CAPABILITY_BLOCKED|PERMISSION_DENY)/)
    }
    await bridge.remove(at('out'))
    await thrown(() => bridge.remove(at('p')))
    await bridge.remove(at('p', { recursive: true }))
    await bridge.remove(at('p', { recursive: true }))
    assert.equal((await thrown(() => bridge.remove(at('p', { force: false })))).code, 'SANDBOX.NOT_FOUND')
  })
  await t.test('skills are read and not written', async () => {
    const handed = '/workspace/.openclaw/sandbox-skills/skills/new.md'
    assert.equal(String(await bridge.readFile({ filePath: handed })), 'new')
    assert.equal(String(await bridge.readFile({ filePath: path.join(home, 'handed/skills/new.md') })), 'new')
    for (const filePath of [handed, 'skills/one/SKILL.md', 'skills/two', path.join(home, 'handed/skills/new.md')]) assert.match((await thrown(() => bridge.writeFile({ filePath, data: 'x' }))).message, /read-only/)
    for (const filePath of ['skills', '.openclaw', '.openclaw/sandbox-skills', '.']) assert.match((await thrown(() => bridge.remove({ filePath, recursive: true }))).message, /read-only/, filePath)
    assert.match((await thrown(() => bridge.rename({ from: 'skills', to: 'x' }))).message, /read-only/)
  })
  await t.test('what it cannot do is refused', async () => {
    for (const rest of [{ cfg: { workspaceAccess: 'ro', docker: {} } }, { cfg: { workspaceAccess: 'rw', docker: { binds: ['/a:/b'] } } }, { readOnlyResourceMounts: [{ hostPath: '/a', containerPath: '/b' }] }]) {
      assert.equal((await thrown(() => factory(params(workspace, 'refused', rest)))).code, 'SANDBOX.UNSUPPORTED')
    }
  })
  await t.test('a daemon that is away is no sandbox that has stopped', async () => {
    const gone = registration({ url: away })
    for (const call of [() => gone.manager.describeRuntime({ entry: { containerName: handle.runtimeId, image: 'default' } }), () => gone.manager.removeRuntime({ entry: { containerName: handle.runtimeId, image: 'default' } }), () => gone.factory(params(workspace, scope))]) {
      assert.equal((await thrown(call)).code, 'PROVIDER.UNAVAILABLE')
    }
    assert.deepEqual(await manager.describeRuntime({ entry: { containerName: handle.runtimeId, image: 'other' } }), { running: true, actualConfigLabel: 'other', configLabelMatch: false })
    assert.equal((await manager.describeRuntime({ entry: { containerName: 'sbx-none', image: 'default' } })).running, false)
  })
})

test('a daemon at a unix socket', async t => {
  const home = folder(t)
  writeFileSync(path.join(home, 'token'), process.env.SANDBOX_TOKEN + '\n')
  const { factory, manager } = registration({ url: process.env.SANDBOX_SOCKET, tokenFile: path.join(home, 'token'), agent: 'main' })
  const handle = await factory(params(home, 'unix'))
  t.after(() => manager.removeRuntime({ entry: { containerName: handle.runtimeId, image: 'default' } }))
  const { argv, env } = await handle.buildExecSpec({ command: 'pwd', env: {}, usePty: false })
  const child = spawn(argv[0], argv.slice(1), { env, stdio: ['ignore', 'pipe', 'inherit'] })
  assert.equal(await text(child.stdout), '/workspace\n')
})

test('a copy of the workspace that was cut off is done again', async t => {
  const home = folder(t)
  writeFileSync(path.join(home, 'file'), 'x')
  const { factory, manager } = registration()
  const first = await factory(params(home, 'cut'))
  t.after(() => manager.removeRuntime({ entry: { containerName: first.runtimeId, image: 'default' } }))
  const bridge = first.createFsBridge({ sandbox: { workspaceDir: home, workspaceAccess: 'rw' } })
  // What an agent has removed does not come back, except where the copy was not done.
  await bridge.remove({ filePath: 'file' })
  await factory(params(home, 'cut'))
  assert.equal(await bridge.stat({ filePath: 'file' }), null)
  await bridge.remove({ filePath: '.openclaw/sandbox-seeded' })
  await factory(params(home, 'cut'))
  assert.equal((await bridge.stat({ filePath: 'file' })).size, 1)
})
