import { join } from 'node:path';
import ts from 'typescript';

/**
 * Type-checks files of a scratch project as strictly as TypeScript can, the package's own declarations included
 * (skipLibCheck false). Errors within other packages are theirs. Returns one line per error; none means it is right.
 */
export function typeErrors(project, files) {
  const options = {
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    experimentalDecorators: true,
    emitDecoratorMetadata: true,
    skipLibCheck: false,
    noEmit: true,
    types: ['node'],
    typeRoots: [join(project.folder, 'node_modules', '@types')],
  };
  const program = ts.createProgram(files, options);
  const ours = (file) =>
    file === undefined || files.includes(file.fileName) || file.fileName.startsWith(project.installed);
  const host = {
    getCanonicalFileName: (name) => name,
    getCurrentDirectory: () => project.folder,
    getNewLine: () => '\n',
  };
  return ts
    .getPreEmitDiagnostics(program)
    .filter(({ file }) => ours(file))
    .map((diagnostic) => ts.formatDiagnostic(diagnostic, host).trim());
}
