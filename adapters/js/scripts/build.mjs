// Makes generated/: the component as JavaScript and core modules, what it is, the SQL statements as one module, and the
// tables of the tokenizers (ranks.mjs). Takes the component of MEMORY_PREFETCH_COMPONENT_WASM, or has cargo build it.
import { createHash } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { componentWit, transpile } from '@bytecodealliance/jco';

const here = dirname(dirname(fileURLToPath(import.meta.url)));
const root = join(here, '..', '..');
const out = join(here, 'generated');
const require = createRequire(import.meta.url);

const component = readFileSync(process.env.MEMORY_PREFETCH_COMPONENT_WASM || buildComponent());
rmSync(out, { recursive: true, force: true });

const { files } = await transpile(component, {
  name: 'component',
  instantiation: { tag: 'sync' },
  nodejsCompat: false,
  minify: true,
});
// jco's module takes a U+FEFF at the beginning of a text for a byte order mark, and drops it (R3).
const source = Buffer.from(files['component.js']).toString();
const parts = source.split(/new TextDecoder(?:\(\))?(?=[,;])/);
if (parts.length !== 2) throw new Error("jco's module decodes UTF-8 in another way than it did");
files['component.js'] = Buffer.from(parts.join("new TextDecoder('utf-8', { ignoreBOM: true })"));
for (const [name, content] of Object.entries(files)) write(name, content);

// jco's module names its imports without versions, so what the component was made for is kept beside it.
const wit = await componentWit(component);
const names = (word) => [...wit.matchAll(new RegExp(`^\\s*${word} ([a-z:/@0-9.-]+);`, 'gm'))].map((match) => match[1]);
const facts = {
  digest: createHash('sha256').update(component).digest('hex'),
  imports: names('import'),
  exports: names('export'),
  modules: Object.keys(files).filter((name) => name.endsWith('.wasm')),
};
write('world.js', `export default ${JSON.stringify(facts, null, 2)};\n`);
write(
  'world.d.ts',
  'declare const world: { digest: string; imports: string[]; exports: string[]; modules: string[] };\nexport default world;\n',
);

const sql = {};
const statements = join(root, 'host', 'sql');
for (const file of readdirSync(statements).sort()) {
  if (file.endsWith('.sql')) sql[file.slice(0, -4)] = readFileSync(join(statements, file), 'utf8');
}
const migrations = readdirSync(join(statements, 'migrations'))
  .sort()
  .map((file) => readFileSync(join(statements, 'migrations', file), 'utf8'));
write(
  'sql.js',
  `export const statements = ${JSON.stringify(sql)};\nexport const migrations = ${JSON.stringify(migrations)};\n`,
);
const known = Object.keys(sql)
  .map((name) => `  ${name}: string;\n`)
  .join('');
write('sql.d.ts', `export declare const statements: {\n${known}};\nexport declare const migrations: string[];\n`);

await import('./ranks.mjs');

// npm packs what lies in the package's own folder.
for (const licence of ['LICENSE-MIT', 'LICENSE-APACHE']) copyFileSync(join(root, licence), join(here, licence));

// npm passes over an optional package that cannot be compiled without a word.
try {
  require('node:sqlite');
} catch {
  try {
    require('better-sqlite3');
  } catch (error) {
    console.warn(
      `warning: there is no SQLite for this Node ${process.versions.node}: ${error.message}\n` +
        'Harnesses on Bun have their own. For Node, take 22.16 or later, or install a C++ compiler and python3 and run\n' +
        '`npm ci` again; where node-gyp cannot fetch headers, npm_config_nodedir names the folder that has include/node.',
    );
  }
}

function write(name, content) {
  const path = join(out, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}

function buildComponent() {
  const said = execFileSync('cargo', ['xtask', 'component'], {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const path = said
    .split('\n')
    .map((line) => line.trim())
    .find((line) => line.endsWith('.wasm'));
  if (!path) throw new Error(`cargo xtask component did not say where the component is:\n${said}`);
  return path;
}
