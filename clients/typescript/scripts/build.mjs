// Builds dist/esm and dist/cjs from src, each with its own types. It needs nothing
// but the packages of devDependencies, and installs these where they are missing,
// because npm prepares the package of a folder before or without them.
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

function run(program, ...args) {
  const { status, error } = spawnSync(program, args, { cwd: root, stdio: ['ignore', 2, 2] })
  if (error !== undefined) throw error
  if (status !== 0) process.exit(status ?? 1)
}

const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
if (!existsSync(tsc)) run('npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund')

const dist = join(root, 'dist')
rmSync(dist, { recursive: true, force: true })
run(process.execPath, tsc, '-p', root)

// The compiler takes the kind of a module from the package that it lies in, so the
// second build reads the sources as those of a package of CommonJS.
const copy = join(root, '.cjs')
rmSync(copy, { recursive: true, force: true })
mkdirSync(copy)
cpSync(join(root, 'src'), join(copy, 'src'), { recursive: true })
cpSync(join(root, 'tsconfig.json'), join(copy, 'tsconfig.json'))
writeFileSync(join(copy, 'package.json'), '{"type":"commonjs"}\n')
symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'), 'junction')
try {
  run(process.execPath, tsc, '-p', copy, '--outDir', join(dist, 'cjs'), '--verbatimModuleSyntax', 'false', '--skipLibCheck', 'true')
} finally {
  rmSync(copy, { recursive: true, force: true })
}
writeFileSync(join(dist, 'cjs', 'package.json'), '{"type":"commonjs"}\n')
